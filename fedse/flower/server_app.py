"""The Flower side of the server: runs the round loop over the run folder it is given.

The round loop is fedse.drivers.loop's, so a run that ended continues after its last committed round
when it is submitted again.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedse.drivers.consent import is_amended
from fedse.drivers.loop import federate
from fedse.errors import ConfigError, FedSEError
from fedse.events import Fact
from fedse.federation.above import home_above
from fedse.federation.folder import revoked_in
from fedse.federation.spare import free_places
from fedse.flower.messages.bounds import largest_reply
from fedse.flower.patches.reply_limit import bound_pulls
from fedse.flower.server.above import patience_below, serve_region
from fedse.flower.server.transport import GridAsk
from fedse.processes.pulse import ROUND_LOOP, Pulse
from fedse.store.run import Run
from fedse.store.run_folder import held, open_run

app = ServerApp()


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Context) -> None:
    """All rounds of the run folder named in the run config are committed, or it was to stop."""
    folder = Path(str(context.run_config["run-dir"]))
    if not folder.is_absolute():
        raise ConfigError(
            f"run-dir must be the absolute path of a run folder, got {str(folder)!r}",
            hint="flwr run APP SUPERLINK --run-config 'run-dir=\"/path/to/run\"'",
        )
    pulse, join = Pulse(folder / ROUND_LOOP), float(context.run_config["join-seconds"])
    with held(folder), pulse.working():
        while _rounds(grid, context, folder, pulse, join=join):
            join = 0.0


def _rounds(grid: Grid, context: Context, folder: Path, pulse: Pulse, *, join: float) -> bool:
    """All rounds under one agreement are committed; whether the next one holds now."""
    seen = [_print, lambda *_: pulse.beat()]
    with (
        closing(open_run(folder, clock=time.time, observers=seen)) as run,
        failure_told(run),
    ):
        bound_pulls(largest_reply(run.config, run.spec))
        # Nodes of a simulation have no names by which a missing one could be noticed.
        well = None if context.run_config["sites"] else answered_last(run)
        above = home_above(folder.parent)
        ask = GridAsk(
            grid,
            run,
            join_seconds=join if above is None else min(join, patience_below(above)),
            well=well,
            revoked=partial(revoked_in, folder),
            free=partial(free_places, run.config, folder.parent),
            beat=pulse.beat,
        )
        if above is None:
            federate(run, ask, clock=time.time, sleep=partial(beating_sleep, pulse))
        else:
            serve_region(run, ask, above, beat=pulse.beat)
        return is_amended(run)


@contextmanager
def failure_told(run: Run) -> Iterator[None]:
    """An error that ends the loop is in the run's log: who starts it again reads it there."""
    try:
        yield
    except FedSEError as error:
        run.emit("loop.failed", error=str(error))
        raise


def beating_sleep(pulse: Pulse, seconds: float) -> None:
    """So many seconds have passed, and whoever watches has seen that the loop only waits."""
    pulse.beat()
    time.sleep(seconds)


def answered_last(run: Run) -> tuple[str, ...] | None:
    """The members of the last committed round; None = there is none yet."""
    last = next(run.recent(1), None)
    return (*last.voters, *last.abstained) if last else None


def _print(event: str, facts: Mapping[str, Fact]) -> None:
    """Flower takes what is printed as the run's log, which `flwr log` shows."""
    details = " ".join(f"{name}={fact}" for name, fact in facts.items() if name != "event")
    print(f"{event} {details}", flush=True)
