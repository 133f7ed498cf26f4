"""How good a run's adapters are: fresh games and comparisons; and the adapters themselves."""

import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedse.api.checks import require_machine
from fedse.api.running import root_of
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.events import Emit, Fact, Observer
from fedse.results import compare as comparing
from fedse.results.compare import Comparison
from fedse.results.outcome import committed_round
from fedse.seeds import seed_of
from fedse.site.acting import engine_of
from fedse.stats.rates import Mean, Rate, by_env, macro, micro, rates
from fedse.store.run import Run
from fedse.store.run_folder import find_run, open_run
from fedse.types import Adapter, ClientStats


class Evaluation(NamedTuple):
    """Success of one adapter in games that neither its training nor its evaluation played."""

    path: Path
    round: int
    clients: dict[str, Rate]
    environments: dict[str, Rate]

    @property
    def overall(self) -> Rate:
        """All games together."""
        return micro(list(self.clients.values()))

    @property
    def mean_of_environments(self) -> Mean:
        """The mean in which every environment counts equally."""
        return macro(list(self.environments.values()))


def evaluate(
    run: str | Path = "last",
    *,
    round: int | None = None,
    episodes: int | None = None,
    seed: int = 0,
    on_event: Observer | None = None,
    out: Path | None = None,
) -> Evaluation:
    """Success of the adapter after `round` (default: the last) in fresh games.

    Each client plays `episodes`, by default as many as in the run's own evaluation; a different
    `seed` gives different games. Nothing is written to the run.
    """
    require_machine("local")
    with open_run(find_run(str(run), root_of(out))) as opened:
        index = committed_round(opened, round)
        config = fresh_games(opened.config, episodes, seed)
        clients = rates(_measure(opened, config, index, _emit_to(on_event)))
    return Evaluation(opened.path, index, clients, by_env(clients, config))


def compare(*runs: str | Path, round: int | None = None, out: Path | None = None) -> Comparison:
    """Each run's held-out success and its difference from the first run's, with intervals."""
    return comparing.compare([find_run(str(run), root_of(out)) for run in runs], round=round)


def load_adapter(
    run: str | Path = "last", *, round: int | None = None, out: Path | None = None
) -> Adapter:
    """The global adapter after `round` (default: the last), verified against its digest."""
    with open_run(find_run(str(run), root_of(out))) as opened:
        return opened.adapter(committed_round(opened, round))


def fresh_games(config: Config, episodes: int | None, seed: int) -> Config:
    """The run's settings with games that neither its training nor its evaluation played."""
    count = config.eval.episodes if episodes is None else episodes
    if count < 1:
        raise ConfigError(f"episodes must be > 0, got {count}", hint="--episodes 50")
    other = seed_of(config.run.seed, "fedse eval", seed)
    return config.model_copy(
        update={
            "run": config.run.model_copy(update={"seed": other}),
            "eval": config.eval.model_copy(update={"episodes": count}),
            "buffer": config.buffer.model_copy(update={"demonstrations": 0}),
        }
    )


def _measure(run: Run, config: Config, round: int, emit: Emit) -> dict[str, ClientStats]:
    from fedse.method.evaluate import client_eval
    from fedse.site.open import open_site

    adapter, stats = run.adapter(round), {}
    with (
        engine_of(config).ready(run.path / "engine", lambda text: emit("engine.ended", text=text)),
        tempfile.TemporaryDirectory(prefix="fedse-eval-") as home,
    ):
        for client in (client.name for client in config.clients):
            site = open_site(config, client, Path(home) / client, clock=time.time)
            with closing(site.buffer):
                stats[client] = client_eval(adapter, site, config, round=round, emit=emit)
    return stats


def _emit_to(observer: Observer | None) -> Emit:
    def emit(event: str, /, **facts: Fact) -> None:
        if observer:
            observer(event, {"time": time.time(), "event": event, **facts})

    return emit
