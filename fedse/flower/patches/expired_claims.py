"""A SuperLink looks for tasks that have expired once a second, not with every request.

For each object that a site sends, Flower writes to its database that no task has expired. The only
task there is the server's app; that it has expired is now known up to a second later.
"""

import time
from collections.abc import Callable
from typing import Any

from fedse.flower.patches.replace import replace
from fedse.types import Clock

STATE = "flwr.supercore.corestate.sql_corestate:SqlCoreState"
LINK = "flwr.server.superlink.linkstate.sql_linkstate:SqlLinkState"
EVERY_SECONDS = 1.0


def look_once_a_second() -> None:
    """From now on this process looks for expired tasks at most once a second."""
    replace(
        f"{STATE}._cleanup_expired_task_tokens",
        lambda look: seldom(look, EVERY_SECONDS, time.monotonic),
        f"{LINK}.get_run_status",
    )


def seldom(look: Callable[[Any], None], seconds: float, ticks: Clock) -> Callable[[Any], None]:
    """`look`, which does nothing if it was done less than `seconds` ago."""
    last = -seconds

    def look_seldom(state: Any) -> None:
        nonlocal last
        if (now := ticks()) - last >= seconds:
            last = now
            look(state)

    return look_seldom
