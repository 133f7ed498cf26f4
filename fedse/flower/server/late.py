"""Replies that come after their round is closed: they are noted and kept.

What counts of them later, if anything, the round decides (fedse/drivers/late_votes.py).
"""

import hashlib
import time
from collections.abc import Callable, Mapping

from flwr.app import Message

from fedse.flower.server.mailbox import Mailbox, Sent
from fedse.store.late_replies import keep_late
from fedse.store.run import Run

# Seconds between two checks; nobody waits for these replies.
LOOK_SECONDS = 5.0

Read = Callable[[Sent, Message | None], tuple[str, bytes] | None]
"""Who sent a reply and its adapter, empty if it cannot be read; None = there is no reply."""


class LateReplies:
    """The messages of closed rounds that may still be answered."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: dict[str, Sent] = {}
        self._counted: dict[tuple[int, str], str] = {}
        self._next = 0.0

    def counted(self, round: int, node: str, adapter: bytes | None) -> None:
        """This answer of the round was taken; the same answer again is not reported.

        None = the node has no other message of this round, so it cannot answer again.
        """
        self._counted[round, node] = "" if adapter is None else _digest(adapter)

    def expect(self, messages: Mapping[str, Sent]) -> None:
        """A reply to any of `messages` is late from now on."""
        self._waiting |= messages

    def busy(self, round: int) -> dict[str, str]:
        """Nodes whose late answer would still count in `round`, and since when each is online."""
        oldest = round - self._run.config.aggregate.late
        return {
            sent.node.key: sent.node.since
            for sent in self._waiting.values()
            if oldest <= sent.round < round and (sent.round, sent.node.key) not in self._counted
        }

    def look(self, mailbox: Mailbox, read: Read) -> None:
        """Late replies that are there were noted in the run's log, and their adapters kept."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        self._waiting = {i: sent for i, sent in self._waiting.items() if now < sent.expires}
        self._forget_closed()
        for message_id, sent, reply in mailbox.replies(self._waiting):
            del self._waiting[message_id]
            answer = read(sent, reply)
            if answer is None:
                continue
            client, adapter = answer
            again = self._counted.get((sent.round, sent.node.key)) == _digest(adapter)
            self._run.emit(
                "answer.late", round=sent.round, client=client, bytes=len(adapter), again=again
            )
            if adapter and not again:
                keep_late(self._run, sent.round, client, adapter)

    def _forget_closed(self) -> None:
        """Answers of the newest round, and of those that replies may still come to, are kept."""
        rounds = {sent.round for sent in self._waiting.values()}
        rounds.add(max((round for round, _ in self._counted), default=0))
        self._counted = {key: one for key, one in self._counted.items() if key[0] in rounds}


def _digest(adapter: bytes) -> str:
    return hashlib.sha256(adapter).hexdigest()
