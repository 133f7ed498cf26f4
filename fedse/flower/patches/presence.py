"""Whether the server considers a site's node online, kept in a file beside the node's key.

A server considers a node online for a minute after it was killed, and refuses its successor until
then. A successor that knows this first deactivates the old node. A node that left properly is never
deactivated by another: a node that the server then considers online is another machine with the
same key.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fedse.flower.patches.replace import of_flower, replace
from fedse.store.files import write_whole

CLIENT = "flwr.supernode.fleet_http_client:FleetHttpClient"
ENTER, LEAVE = f"{CLIENT}.ActivateNode", f"{CLIENT}.DeactivateNode"
NODE = "flwr.supernode.fleet_http_connection:http_request_response"
INTERVAL = "flwr.supercore.heartbeat:HEARTBEAT_DEFAULT_INTERVAL"
# Flower waits for 0.7 to 0.9 of what this is longer than a call may take (5 s): 3.5 to 4.5 s.
HEARTBEAT_SECONDS = 10
LEFT = "left"
# Below this status the server has decided; from here on it may have stopped half-way.
UNDECIDED = 500

Call = Callable[..., Any]


class Known(NamedTuple):
    """The node of a site, as the server has numbered it."""

    node: int
    online: bool
    """Whether the server may believe so; False = it left, and the server agreed."""


def read_presence(file: Path) -> Known | None:
    """The node in `file`; None = there was no node yet, or the file is not usable."""
    try:
        number, _, state = file.read_text().partition(" ")
        return Known(int(number), online=state.strip() != LEFT)
    except (OSError, ValueError):
        return None


def remember(file: Path) -> None:
    """From now on `file` follows how this process enters and leaves."""
    # Deactivating an earlier node must not be recorded as this one leaving.
    plainly_leave = of_flower(LEAVE)
    replace(LEAVE, lambda leave: leaving(leave, file), NODE)
    replace(ENTER, lambda enter: entering(enter, plainly_leave, file), NODE)


def hasten_heartbeats() -> None:
    """This SuperNode is heard often, also while it works; the server believes in it as long."""
    replace(INTERVAL, lambda _: HEARTBEAT_SECONDS, "flwr.supercore.heartbeat:HeartbeatSender._run")


def entering(enter: Call, leave: Call, file: Path) -> Call:
    """`enter`, after deactivating a node that was killed; if that is refused, nothing is harmed."""
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest
    from httpx import HTTPStatusError

    def enter_again(client: object, request: object) -> Any:
        before = read_presence(file)
        if before and before.online:
            try:
                leave(client, DeactivateNodeRequest(node_id=before.node))
            except Exception as refusal:
                print(f"node {before.node} was not deactivated: {refusal}", file=sys.stderr)
        if before:
            # A process killed before the answer comes may still be online.
            _write(file, Known(before.node, online=True))
        try:
            entered = enter(client, request)
        except HTTPStatusError as refusal:
            if before and refusal.response.status_code < UNDECIDED:
                _write(file, before)
            raise
        _write(file, Known(entered.node_id, online=True))
        return entered

    return enter_again


def leaving(leave: Call, file: Path) -> Call:
    """`leave`, and the file says so once the server has agreed."""

    def leave_and_note(client: object, request: Any) -> Any:
        agreed = leave(client, request)
        _write(file, Known(request.node_id, online=False))
        return agreed

    return leave_and_note


def _write(file: Path, presence: Known) -> None:
    write_whole(
        file, (f"{presence.node}\n" if presence.online else f"{presence.node} {LEFT}\n").encode()
    )
