"""`fedse eval RUN`: how good is an adapter of a run, in games nobody has seen?"""

import json as json_format
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fedse.cli.display import Json
from fedse.cli.drive import require_machine
from fedse.cli.resume import RunName
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.events import silent
from fedse.seeds import seed_of
from fedse.stats.rates import Rate, by_env, macro, micro, rates
from fedse.store.run import Run
from fedse.store.run_folder import find_run, open_run, runs_root
from fedse.types import ClientStats


def eval_verb(
    run: RunName = "last",
    /,
    *,
    round: Annotated[int | None, Parameter(help="Which adapter; default: the last.")] = None,
    episodes: Annotated[
        int | None, Parameter(help="Games per client; default: as the run.")
    ] = None,
    seed: Annotated[int, Parameter(help="Other seeds are other games.")] = 0,
    json: Json = False,
) -> None:
    """The adapter's success in fresh games on each client's held-out tasks is on stdout."""
    require_machine("local")
    opened = open_run(find_run(run, runs_root(os.environ)), clock=time.time)
    index = (opened.committed or 0) if round is None else round
    config = fresh_games(opened.config, episodes, seed)
    found = measure(opened, config, index)
    rows = _rows(rates(found), config)
    if json:
        print(json_format.dumps({"run": str(opened.path), "round": index, "success": rows}))
    else:
        print(_text(opened.path.name, index, rows))


def fresh_games(config: Config, episodes: int | None, seed: int) -> Config:
    """The run's settings with games that neither its training nor its evaluation played."""
    asked = config.eval.episodes if episodes is None else episodes
    if asked < 1:
        raise ConfigError(f"--episodes must be > 0, got {asked}", hint="--episodes 50")
    other = seed_of(config.run.seed, "fedse eval", seed)
    return config.model_copy(
        update={
            "run": config.run.model_copy(update={"seed": other}),
            "eval": config.eval.model_copy(update={"episodes": asked}),
            "buffer": config.buffer.model_copy(update={"demonstrations": 0}),
        }
    )


def measure(run: Run, config: Config, round: int) -> dict[str, ClientStats]:
    """What each client counts; nothing of it is written into the run."""
    from fedse.method.rounds import client_eval
    from fedse.site.open import open_site

    adapter, found = run.adapter(round), {}
    with tempfile.TemporaryDirectory(prefix="fedse-eval-") as home:
        for client in (client.name for client in config.clients):
            print(f"{client} plays {config.eval.episodes} games", file=sys.stderr, flush=True)
            site = open_site(config, client, Path(home) / client, clock=time.time)
            found[client] = client_eval(adapter, site, config, round=round, emit=silent)
    return found


def _rows(found: dict[str, Rate], config: Config) -> list[dict[str, Any]]:
    envs = by_env(found, config)
    named = [("client", name, rate) for name, rate in found.items()]
    named += [("environment", env, rate) for env, rate in envs.items()]
    named += [("all", "all", micro(list(found.values())))]
    rows = [
        {"of": of, "name": name, "won": rate.successes, "played": rate.n, "rate": rate.value}
        | rate.interval._asdict()
        for of, name, rate in named
    ]
    mean = macro(list(envs.values()))
    rows += [
        {"of": "mean of environments", "name": "mean of environments", "rate": mean.value}
        | mean.interval._asdict()
    ]
    return rows


def _text(run: str, round: int, rows: list[dict[str, Any]]) -> str:
    width = max(len(row["name"]) for row in rows)
    lines = [f"success of round {round} of {run} in fresh games, 95 % interval"]
    of = ""
    for row in rows:
        lines += [""] if row["of"] != of and of in ("client", "environment") else []
        of = row["of"]
        count = f"   {row['won']} of {row['played']}" if "won" in row else ""
        span = f"{row['low']:.2f} to {row['high']:.2f}"
        lines += [f"  {row['name']:<{width}}  {row['rate']:.2f}  ({span}){count}"]
    return "\n".join(lines)
