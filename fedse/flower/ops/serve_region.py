"""The processes by which a federation that is a region reaches the coordinator above."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from fedse.federation.above import home_above, socket_above
from fedse.federation.folder import Federation
from fedse.flower.ops.serve_site import likely_cause, starts
from fedse.flower.ops.site_keys import SiteKeys
from fedse.processes.group import Processes
from fedse.processes.restart import RestartingProcess, Tell
from fedse.processes.watchdog import Watchdog


@contextmanager
def above_kept(
    federation: Federation, processes: Processes, tell: Tell
) -> Iterator[list[RestartingProcess]]:
    """The SuperNode towards the coordinator above, not started yet; none if there is none."""
    home = home_above(federation.path)
    if home is None:
        yield []
        return
    with socket_above(federation.path) as socket:
        keys = SiteKeys(home, tell, clock=time.time)
        _, start_node = starts(home, socket, processes, keys)
        tell(f"{home.card.site} connects to the coordinator above, {home.card.server}")
        yield [
            RestartingProcess(
                processes,
                start_node,
                tell=tell,
                likely=likely_cause,
                watchdog=Watchdog(stopped=home.config.watchdog.stopped),
            )
        ]
