"""Whether the server believes a site's node online, kept in a file beside the node's key.

A server believes a node online for a minute after it was killed, and refuses its successor that
long. The successor that knows so says goodbye for it first. A node that left in peace is never
said goodbye for: what the server believes online then is another machine with the same key.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from fedse.flower.patches.replace import replace
from fedse.store.files import write_whole

CLIENT = "flwr.supernode.fleet_http_client"
ENTER, LEAVE = "ActivateNode", "DeactivateNode"
LEFT = "left"
# A server that answers so has decided; from here on it may have changed its mind half-way.
UNDECIDED = 500

Call = Callable[..., Any]


class Known(NamedTuple):
    """The node of a site, as the server has numbered it."""

    node: int
    online: bool
    """Whether the server may believe so; False = it left, and the server agreed."""


def known(file: Path) -> Known | None:
    """What `file` tells; None = there was no node yet, or the file says nothing usable."""
    try:
        number, _, state = file.read_text().partition(" ")
        return Known(int(number), online=state.strip() != LEFT)
    except (OSError, ValueError):
        return None


def remember(file: Path) -> None:
    """From now on `file` follows how this process enters and leaves."""
    client = import_module(CLIENT).FleetHttpClient
    # The goodbye for an earlier node is not to be noted as this one's.
    plainly_leave: Any = getattr(client, LEAVE, None)
    replace(client, LEAVE, lambda leave: leaving(leave, file))
    replace(client, ENTER, lambda enter: entering(enter, plainly_leave, file))


def entering(enter: Call, leave: Call, file: Path) -> Call:
    """`enter`, after a goodbye for a node that could not say it; a refused one harms nothing."""
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest
    from httpx import HTTPStatusError

    def enter_anew(client: object, request: object) -> Any:
        before = known(file)
        if before and before.online:
            try:
                leave(client, DeactivateNodeRequest(node_id=before.node))
            except Exception as refusal:
                print(f"no goodbye for node {before.node}: {refusal}", file=sys.stderr)
        if before:
            # Whoever is killed before the answer comes may be online all the same.
            _write(file, Known(before.node, online=True))
        try:
            entered = enter(client, request)
        except HTTPStatusError as refusal:
            if before and refusal.response.status_code < UNDECIDED:
                _write(file, before)
            raise
        _write(file, Known(entered.node_id, online=True))
        return entered

    return enter_anew


def leaving(leave: Call, file: Path) -> Call:
    """`leave`, and the file says so once the server has agreed."""

    def leave_and_note(client: object, request: Any) -> Any:
        agreed = leave(client, request)
        _write(file, Known(request.node_id, online=False))
        return agreed

    return leave_and_note


def _write(file: Path, told: Known) -> None:
    write_whole(file, (f"{told.node}\n" if told.online else f"{told.node} {LEFT}\n").encode())
