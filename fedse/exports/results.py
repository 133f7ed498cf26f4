"""What a run measured, in the shape of lm-eval's results file, so that its tools read it.

Rates are those of `run.evals(round)`, the episodes of all clients of an environment together. No
setting that could name a folder of this machine is in it.
"""

from datetime import datetime
from math import sqrt
from pathlib import Path
from typing import Any

from fedse.envs.base import BUILT_IN
from fedse.errors import ConfigError
from fedse.plugins import ENVS, plugin_version
from fedse.stats.rates import Rate, by_env, rates
from fedse.store.run import Run
from fedse.store.run_folder import RunCard

METRIC = "success"


def last_measured(run: Run) -> int:
    """The last round whose adapter was evaluated."""
    for round in range(run.committed or 0, -1, -1):
        if run.evals(round):
            return round
    if not run.config.eval.episodes:
        raise ConfigError(
            f"run {run.path.name} measured nothing because its eval.episodes is 0",
            hint=f"run it with an evaluation: fedse run {run.path / 'config.resolved.toml'} "
            "--set eval.episodes=50",
        )
    raise ConfigError(f"run {run.path.name} has no evaluation yet", hint=f"fedse resume {run.path}")


def results_of(run: Run, card: RunCard, round: int) -> dict[str, Any]:
    """The held-out success of the adapter after `round`, per environment."""
    of_client = rates(run.evals(round))
    if not of_client:
        measured = [str(r) for r in range((run.committed or 0) + 1) if run.evals(r)]
        raise ConfigError(
            f"run {card.id} has no evaluation of round {round}, only of {', '.join(measured)}"
        )
    of_env, config = by_env(of_client, run.config), run.config
    fedse = card.versions.get("fedse")
    played = {env: [c.name for c in config.clients if c.env == env] for env in of_env}
    return {
        "results": {env: _result(env, rate) for env, rate in of_env.items()},
        "configs": {env: _task(env, clients) for env, clients in played.items()},
        "versions": {
            env: fedse if env in BUILT_IN else plugin_version(ENVS, env) for env in of_env
        },
        "n-shot": dict.fromkeys(of_env, 0),
        "higher_is_better": {env: {METRIC: True} for env in of_env},
        "n-samples": {env: {"original": r.n, "effective": r.n} for env, r in of_env.items()},
        "config": {
            "model": "fedse",
            "model_args": {
                "base": Path(config.model.base).name,
                "base_digest": run.spec.base_digest,
                "adapter": run.adapter(round).digest,
                "round": round,
                "run": card.id,
            },
            "gen_kwargs": {"temperature": config.eval.temperature},
            "random_seed": card.seed,
        },
        "clients": {
            client: {"won": rate.successes, "played": rate.n, **rate.interval._asdict()}
            for client, rate in of_client.items()
        },
        "git_hash": None,
        "date": datetime.fromisoformat(card.created).timestamp(),
        "fedse_versions": card.versions,
    }


def _result(env: str, rate: Rate) -> dict[str, Any]:
    p, n = rate.value, rate.n
    return {
        "alias": env,
        f"{METRIC},none": p,
        # As in lm-eval: the sample's standard error, and N/A where there is none.
        f"{METRIC}_stderr,none": sqrt(p * (1 - p) / (n - 1)) if n > 1 else "N/A",
        "sample_len": n,
    }


def _task(env: str, clients: list[str]) -> dict[str, Any]:
    return {
        "task": env,
        "num_fewshot": 0,
        "metric_list": [{"metric": METRIC, "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"clients": clients},
    }
