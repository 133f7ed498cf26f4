"""Drive a run with the chosen engine; a failure or an interruption is in the event log."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from fedse.config.rounds import out_of
from fedse.errors import FedSEError, Interrupted
from fedse.events import Fact, Observer
from fedse.observers.follow import followed
from fedse.site.acting import engine_of
from fedse.store.next_round import forget_stop
from fedse.store.run import Run
from fedse.store.run_folder import held

Engine = Literal["local", "simulation", "deployment"]
"""local: no network. simulation and deployment: Flower on this machine."""


def fan_out(observers: Sequence[Observer]) -> Observer:
    """Passes each event to all observers, also those added to the list later."""

    def observe(event: str, entry: dict[str, Fact]) -> None:
        for observer in observers:
            observer(event, entry)

    return observe


def drive(run: Run, engine: Engine, observer: Observer, *, remembered: Path | None = None) -> None:
    """All rounds are committed; if the run ends before that, the event log says why.

    The local engine takes work from `remembered` that an earlier run has done there.
    """
    forget_stop(run.path)
    try:
        with engine_of(run.config).ready(
            run.path / "engine", lambda text: run.emit("engine.ended", text=text)
        ):
            if engine == "local":
                with held(run.path):
                    _here(run, remembered)
            else:
                _on_flower(run, engine, observer)
    except KeyboardInterrupt:
        done = run.committed or 0
        run.emit("run.interrupted", round=done)
        where = out_of(done, run.config.run.rounds)
        raise Interrupted(
            f"stopped after round {where}; what was committed is kept",
            hint=f"fedse resume {run.path}",
        ) from None
    except FedSEError as error:
        run.emit("run.failed", error=str(error), exit_code=error.exit_code)
        error.hint = error.hint or f"fedse resume {run.path}"
        raise


def _here(run: Run, remembered: Path | None) -> None:
    from fedse.drivers.run import run_local
    from fedse.site.remembered import open_remembering

    if remembered is None:
        run_local(run)
    else:
        run_local(run, open_site=partial(open_remembering, remembered))


def _on_flower(run: Run, engine: Engine, observer: Observer) -> None:
    from fedse.flower.ops.deployment import run_deployment
    from fedse.flower.ops.simulation import run_simulation

    # The server's app is another process and holds the run itself.
    with followed(run.path / "events.jsonl", observer):
        start = run_simulation if engine == "simulation" else run_deployment
        start(run.path, run.path / "flower")
