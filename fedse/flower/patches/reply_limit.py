"""Reading stops when a reply is larger than any valid reply.

Flower reads a reply of any size into memory before the app sees a byte of it. A reply that
is given up reaches the app as one that was lost.
"""

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from fedse.flower.messages.bounds import ReplyBounds, reply_bounds
from fedse.flower.patches.replace import replace

GRID, PULL = "flwr.superlink.grid.http_grid", "pull_objects"


def bound_pulls(adapter_bytes: int) -> None:
    """From now on this process reads no message that is clearly larger than a reply."""
    bounds = reply_bounds(adapter_bytes)
    replace(import_module(GRID), PULL, lambda pull: bounded(pull, bounds))


def bounded(pull: Callable[..., Any], bounds: ReplyBounds) -> Callable[..., Any]:
    """`pull`, which ends in Flower's own error once the bytes are too many."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError

    def pull_bounded(object_ids: Sequence[str], pull_object_fn: Callable[[str], bytes]) -> Any:
        if len(object_ids) > bounds.objects:
            raise ObjectPullError(object_ids[0], f"of more than {bounds.objects} objects")
        counting, got = threading.Lock(), [0]

        def pull_counted(object_id: str) -> bytes:
            content = pull_object_fn(object_id)
            with counting:
                got[0] += len(content)
                if got[0] > bounds.bytes:
                    raise ObjectPullError(object_id, f"of more than {bounds.bytes} bytes")
            return content

        return pull(object_ids, pull_counted)

    return pull_bounded
