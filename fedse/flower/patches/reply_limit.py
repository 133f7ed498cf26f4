"""Reading stops when a reply is larger than any valid reply.

The SuperLink bounds what is sent in reply to one question, but a reply may also name what its
sender left there earlier, and Flower reads all of it into memory before the app sees a byte. A
reply that is given up reaches the app as one that was lost.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fedse.flower.messages.bounds import reply_bounds
from fedse.flower.patches.replace import replace

GRID = "flwr.superlink.grid.http_grid"


def bound_pulls(adapter_bytes: int) -> None:
    """From now on this process reads no message that is clearly larger than a reply."""
    most, reader = reply_bounds(adapter_bytes).bytes, f"{GRID}:HttpGrid.pull_messages"
    replace(f"{GRID}:pull_objects", lambda pull: bounded(pull, most), reader)


def bounded(pull: Callable[..., Any], most: int) -> Callable[..., Any]:
    """`pull`, which ends in Flower's own error once there are more than `most` bytes."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError

    def pull_bounded(object_ids: Sequence[str], pull_object_fn: Callable[[str], bytes]) -> Any:
        got: list[int] = []  # by several threads

        def pull_counted(object_id: str) -> bytes:
            content = pull_object_fn(object_id)
            got.append(len(content))
            if sum(got) > most:
                raise ObjectPullError(object_id, f"of more than {most} bytes")
            return content

        return pull(object_ids, pull_counted)

    return pull_bounded
