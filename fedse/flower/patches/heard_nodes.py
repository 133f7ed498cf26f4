"""A SuperLink notes when it hears of each node, and what the node took and sent.

Flower believes a killed node online for up to a minute. Its SuperNode looks for questions every
three seconds, but not while it works on one; so ours also sends its heartbeats more often.
"""

import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from fedse.federation.heard import HeardNode, is_silent, read_heard, write_heard
from fedse.flower.patches.replace import replace
from fedse.types import Clock

HANDLERS = "flwr.superlink.servicer.fleet.fleet_handlers"
SENDER, INTERVAL = "flwr.supercore.heartbeat", "HEARTBEAT_DEFAULT_INTERVAL"
# Flower waits for 0.7 to 0.9 of what this is longer than a call may take (5 s): 3.5 to 4.5 s.
HEARTBEAT_SECONDS = 10
WRITE_SECONDS = 1.0
PLAIN = ("send_node_heartbeat", "push_object", "pull_object", "confirm_message_received")

Handler = Callable[..., Any]
Change = Callable[[HeardNode, float], HeardNode]
Learned = Callable[[Any, Any], tuple[int, Change]]
"""Of which node a request and its answer tell, and what."""


def hasten_heartbeats() -> None:
    """This SuperNode is heard often; how long the server believes in it stays as it was."""
    replace(import_module(SENDER), INTERVAL, lambda _: HEARTBEAT_SECONDS)


class HeardNodes:
    """Follows the handlers of a SuperLink, which run in many threads, and keeps `file` in step."""

    def __init__(self, file: Path, *, clock: Clock, ticks: Clock) -> None:
        self._file, self._clock, self._ticks = file, clock, ticks
        self._lock = threading.Lock()
        # Of an earlier SuperLink, which may have been restarted while its nodes went on.
        self._heard, self._changed = read_heard(file), False

    def follow(self) -> None:
        """From now on this process's handlers are followed, and the file is at most 1 s behind."""
        handlers = import_module(HANDLERS)
        for name in PLAIN:
            replace(handlers, name, self.hearing)
        replace(handlers, "activate_node", self.entering)
        replace(handlers, "deactivate_node", self.leaving)
        replace(handlers, "pull_messages", self.asking)
        replace(handlers, "push_messages", self.answering)
        threading.Thread(target=self._keep_writing, daemon=True).start()

    def hearing(self, handle: Handler) -> Handler:
        """`handle`, after which its node has been heard."""
        return self._noting(handle, lambda asked, _: (asked.node.node_id, _unchanged))

    def entering(self, handle: Handler) -> Handler:
        """`handle` of a node that comes; it knows of no question yet."""
        return self._noting(handle, lambda _, answer: (answer.node_id, _came))

    def leaving(self, handle: Handler) -> Handler:
        """`handle` of a node that says goodbye."""
        return self._noting(handle, lambda asked, _: (asked.node_id, _left))

    def asking(self, handle: Handler) -> Handler:
        """`handle` of a node that looks for a question."""
        return self._noting(
            handle, lambda asked, answer: (asked.node.node_id, _took(answer.messages_list))
        )

    def answering(self, handle: Handler) -> Handler:
        """`handle` of a node that begins to send its answer."""
        return self._noting(handle, lambda asked, _: (asked.node.node_id, _sent))

    def write(self) -> None:
        """The file says what was heard so far."""
        with self._lock:
            heard, changed, self._changed = dict(self._heard), self._changed, False
        if changed:
            write_heard(self._file, heard)

    def _noting(self, handle: Handler, learned: Learned) -> Handler:
        """`handle`, after which what a request and its answer tell of a node is noted."""

        def noted(*, request: Any, **rest: Any) -> Any:
            answer = handle(request=request, **rest)
            self._note(*learned(request, answer))
            return answer

        return noted

    def _note(self, node: int, change: Change) -> None:
        now, tick = self._clock(), self._ticks()
        with self._lock:
            before = self._heard.get(node)
            if before is None or before.left or is_silent(before, tick):
                kept = before or HeardNode(since=now, heard=now, tick=tick)
                before = kept.model_copy(update={"since": now, "left": False})
            heard = before.model_copy(update={"heard": now, "tick": tick})
            self._heard[node] = change(heard, now)
            self._changed = True

    def _keep_writing(self) -> None:
        while True:
            time.sleep(WRITE_SECONDS)
            self.write()


def _unchanged(node: HeardNode, now: float) -> HeardNode:
    return node


def _came(node: HeardNode, now: float) -> HeardNode:
    return HeardNode(since=now, heard=now, tick=node.tick)


def _left(node: HeardNode, now: float) -> HeardNode:
    return node.model_copy(update={"left": True, "asked": None})


def _sent(node: HeardNode, now: float) -> HeardNode:
    return node.model_copy(update={"asked": None, "sent": now})


def _gave_up(node: HeardNode, now: float) -> HeardNode:
    """A node that looks for a question has none, and did not answer one that it had."""
    given_up = {"asked": None, "sent": None, "round": None}
    return node if node.asked is None else node.model_copy(update=given_up)


def _took(messages: Sequence[Any]) -> Change:
    if not messages:
        return _gave_up
    group = messages[0].metadata.group_id
    round = int(group) if group.isdecimal() else None
    return lambda node, now: node.model_copy(update={"asked": now, "round": round})
