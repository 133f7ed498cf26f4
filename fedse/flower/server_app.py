"""The Flower side of the server: runs the round loop over the run folder it is given.

The round loop is fedse.coordinator's, so a run that ended goes on at its last committed round
when it is submitted again.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedse.coordinator import federate
from fedse.errors import ConfigError
from fedse.events import Fact
from fedse.flower.ask import GridAsk
from fedse.run_folder import held, open_run

app = ServerApp()


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Context) -> None:
    """All rounds of the run folder named in the run config are committed."""
    folder = Path(str(context.run_config["run-dir"]))
    if not folder.is_absolute():
        raise ConfigError(
            f"run-dir must be the absolute path of a run folder, got {str(folder)!r}",
            hint="flwr run APP SUPERLINK --run-config 'run-dir=\"/path/to/run\"'",
        )
    with held(folder), closing(open_run(folder, clock=time.time, observers=[_print])) as run:
        ask = GridAsk(grid, run, join_seconds=float(context.run_config["join-seconds"]))
        federate(run, ask, clock=time.time)


def _print(event: str, facts: Mapping[str, Fact]) -> None:
    """Flower takes what is printed as the run's log, which `flwr log` shows."""
    shown = " ".join(f"{name}={fact}" for name, fact in facts.items() if name != "event")
    print(f"{event} {shown}", flush=True)
