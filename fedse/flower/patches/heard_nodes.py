"""When a SuperLink last heard of each node, and what the node took and sent.

Flower itself believes a killed node online for up to a minute.
"""

import threading
import time
from pathlib import Path
from typing import Any

from fedse.federation.heard import HeardNode, is_silent, read_heard, write_heard
from fedse.types import Clock

WRITE_SECONDS = 1.0


class HeardNodes:
    """What was heard, kept in `file`; None = it is kept nowhere."""

    def __init__(self, file: Path | None, *, clock: Clock, ticks: Clock) -> None:
        self._file, self._clock, self._ticks = file, clock, ticks
        # Of an earlier SuperLink, which may have been restarted while its nodes went on.
        self._heard, self._changed = read_heard(file) if file else {}, False

    def note(self, what: str, request: Any, answer: Any) -> None:
        """A node asked for `what` and was answered; one that comes learns its number by that."""
        who = (getattr(request, "node", request), answer)
        node = next(one.node_id for one in who if hasattr(one, "node_id"))
        now, tick = self._clock(), self._ticks()
        before = self._heard.get(node)
        if before is None or before.left or is_silent(before, tick):
            kept = before or HeardNode(since=now, heard=now, tick=tick)
            before = kept.model_copy(update={"since": now, "left": False})
        heard = before.model_copy(update={"heard": now, "tick": tick})
        self._heard[node] = _changed(heard, what, answer)
        self._changed = True

    def forget(self, node: int) -> bool:
        """Nothing is known of the node; whether something was."""
        return self._heard.pop(node, None) is not None

    def write(self) -> None:
        """The file says what was heard so far."""
        changed, self._changed = self._changed, False
        if changed and self._file:
            write_heard(self._file, self._heard.copy())

    def keep_writing(self) -> None:
        """From now on the file is at most a second behind."""
        threading.Thread(target=self._keep_writing, daemon=True).start()

    def _keep_writing(self) -> None:
        while True:
            time.sleep(WRITE_SECONDS)
            self.write()


def _changed(node: HeardNode, what: str, answer: Any) -> HeardNode:
    """The node after it asked for `what` just now, where that means more than being heard."""
    now = node.heard
    if what == "activate-node":
        return HeardNode(since=now, heard=now, tick=node.tick)
    if what == "deactivate-node":
        return node.model_copy(update={"left": True, "asked": None})
    if what == "push-messages":
        return node.model_copy(update={"asked": None, "sent": now})
    if what == "pull-messages" and answer.messages_list:
        group = answer.messages_list[0].metadata.group_id
        round = int(group) if group.isdecimal() else None
        return node.model_copy(update={"asked": now, "round": round})
    if what == "pull-messages" and node.asked is not None:
        # A node that looks for a question has none, and did not answer the one that it had.
        return node.model_copy(update={"asked": None, "sent": None, "round": None})
    return node
