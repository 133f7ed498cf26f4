"""Run an experiment from start to result, or continue one that was stopped."""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fedse.api.checks import require_machine, require_runnable
from fedse.api.engines import Engine, drive, fan_out
from fedse.api.experiment import Settings, Source, load_experiment
from fedse.events import Observer
from fedse.observers.trackers import require_trackers, tracked
from fedse.results.outcome import RunResult, result_of
from fedse.store.run_folder import create_run, find_run, open_run, runs_root


def run(
    experiment: Source,
    *,
    engine: Engine = "local",
    on_event: Observer | None = None,
    settings: Settings = (),
    method: str | None = None,
    only: str | None = None,
    out: Path | None = None,
    name: str | None = None,
    given: str | None = None,
    track: Sequence[str] = (),
    warn: Callable[[str], None] = warnings.warn,
    remembered: Path | None = None,
) -> RunResult:
    """All rounds of the experiment are committed in a new folder, or nothing was started.

    `on_event` receives every event's name and facts as it happens. `out` is the folder in which the
    run's own folder is made, and `name` is that folder's name. `given` is the text saved as
    config.toml if `experiment` is a Config. A tracker's failure is passed to `warn`; the run
    continues. Runs with the same folder `remembered` do what they have in common only once.
    """
    config, text = load_experiment(experiment, settings=settings, method=method, only=only)
    require_runnable(config, engine, partial(require_trackers, track))
    observers = [on_event] if on_event else []
    observer = fan_out(observers)
    with create_run(
        root_of(out), config, given=given or text, name=name, observers=[observer]
    ) as opened:
        observers += tracked(track, opened.path, config, environ=os.environ, warn=warn)
        drive(opened, engine, observer, remembered=remembered)
        return result_of(opened)


def resume(
    run: str | Path = "last",
    *,
    engine: Engine = "local",
    on_event: Observer | None = None,
    out: Path | None = None,
) -> RunResult:
    """The run has all its rounds; its adapters are those of a run without the interruption.

    `run` is the path or name of a run, or `last` for the one that was started last.
    """
    path = find_run(str(run), root_of(out))
    require_machine(engine)
    observer = fan_out([on_event] if on_event else [])
    with open_run(path, observers=[observer]) as opened:
        drive(opened, engine, observer)
        return result_of(opened)


def root_of(out: Path | None) -> Path:
    """The folder runs are kept in."""
    return out if out is not None else runs_root(os.environ)
