"""Who is asked, who is asked again, and when a round stops waiting; no network, no clock.

A site that crashed or lost its connection answers from its outbox when it is asked again, so asking
twice costs little and waiting for a message that was lost costs the round.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from fedse.flower.server.mailbox import Node, Sent

# Above this many members a round with a goal asks a part of them, and some to spare.
ASK_ALL, SPARE = 20, 1.3
# Seconds until a silent node is asked again, twice as long each time: a message or a reply can be
# lost with the process that carried it, without any notice.
SILENCE_SECONDS = 20.0
# More if many are asked at once: a server may need so long for each answer that it takes.
ANSWER_SECONDS = 1.0
# The same for a node that reported a failure.
FAILED_SECONDS = 2.0


class ReplyValue(Enum):
    """What an answer is worth to a round."""

    NOTHING, NO_VOTE, VOTE = range(3)


class Size(NamedTuple):
    """How many answers close a round, and how many sites are asked for them."""

    goal: int
    seats: int


def size_of(members: int, goal: int) -> Size:
    """`goal` 0 = all; of many members a part is asked, a third more than are needed."""
    if not goal or goal >= members:
        return Size(members, members)
    return Size(goal, min(members, math.ceil(SPARE * goal)) if members > ASK_ALL else members)


@dataclass
class Attempt:
    """The last request to a node."""

    since: str
    """When the node that was asked had come online."""
    again: float
    """From when on silence is a reason to ask again."""
    pause: float
    times: int
    """How often it was asked in this round."""
    rest: float
    """Until when a node that comes and goes is not asked again."""
    first: float
    """When it was asked first in this round."""


@dataclass
class Failure:
    reason: str
    first: float
    again: float
    pause: float


@dataclass
class Asking:
    """One round's question to many nodes; times are the caller's."""

    begun: float
    ends: float
    """The latest: reached only while too few have come or answered."""
    rejoin: float
    """Seconds a node that was well is waited for after it vanished or failed."""
    size: Size
    well: frozenset[str] | None
    """The nodes that answered the last question, by key; None = there was none."""
    join: float
    """Until when all members are waited for if nobody was asked before."""
    needed: int = 1
    """Valid answers below which the round would be abandoned: until `join` more are waited for."""
    deadline: float = math.inf
    """Seconds the nodes have to answer, from when those that are expected have come."""
    lasting: float = 0.0
    """Seconds after the deadline in which an answer is of use to a later round."""
    gathered: float | None = None
    """When they had come; None = not yet."""
    took: Mapping[str, float] = field(default_factory=dict)
    """Seconds each node took for its last answer; silence means nothing before twice that."""
    seen: dict[str, float] = field(default_factory=dict)
    """When each node was last online."""
    online: frozenset[str] = frozenset()
    attempts: dict[str, Attempt] = field(default_factory=dict)
    waiting: dict[str, Sent] = field(default_factory=dict)
    failed: dict[str, Failure] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    """Nodes whose answer is known, good or bad."""
    votes: int = 0
    valid: int = 0
    """Answers that are no fault, votes and others."""

    def due(self, nodes: Sequence[Node], now: float) -> dict[Node, float]:
        """The online `nodes`, in the order of preference, that are to be asked now.

        Each with the seconds for which it is asked: as long as an answer is of use, or, if it was
        only silent, until it would be asked once more. So one question at most waits for a busy
        node.
        """
        self.online = frozenset(node.key for node in nodes)
        self.seen |= dict.fromkeys(self.online, now)
        if self.gathered is None and self._have_come(now):
            self.gathered = now
        without_vote = len(self.settled) - self.votes + len(self.failed) + self._count_silent()
        chosen = nodes[: self.size.seats + without_vote]
        rest = min(self.closes() - now, self.deadline)
        if rest <= 0:
            return {}
        due = [n for n in chosen if n.key not in self.settled and self._is_due(n, now)]
        useful = rest + self.lasting
        return {n: min(rest, self._pause(n)) if self._is_silent(n) else useful for n in due}

    def closes(self) -> float:
        """When the round stops waiting, as things are now."""
        if self.gathered is None or self.valid < self.needed:
            return self.ends
        return min(self.ends, self.gathered + self.deadline)

    def _have_come(self, now: float) -> bool:
        """All members, or, if nodes were well before, those that have not stayed away too long."""
        if self.well is None:
            return len(self.seen) >= self.size.seats
        back = self.well <= self.seen.keys() or now >= self.begun + self.rejoin
        return back and len(self.seen) >= self.needed

    def _count_silent(self) -> int:
        """Nodes asked more than once without an answer; others are asked in their place."""
        out = self.settled | self.failed.keys()
        return sum(attempt.times > 1 for node, attempt in self.attempts.items() if node not in out)

    def _is_silent(self, node: Node) -> bool:
        attempt = self.attempts.get(node.key)
        return bool(attempt and attempt.since == node.since and node.key not in self.failed)

    def _pause(self, node: Node) -> float:
        """Seconds of silence after which the node is asked again."""
        if before := self.attempts.get(node.key):
            return 2 * before.pause
        least = max(SILENCE_SECONDS, ANSWER_SECONDS * self.size.seats)
        return max(least, 2 * self.took.get(node.key, 0))

    def _is_due(self, node: Node, now: float) -> bool:
        attempt, failure = self.attempts.get(node.key), self.failed.get(node.key)
        if attempt is None:
            return True
        if attempt.since != node.since:
            return now >= attempt.rest
        return now >= (failure.again if failure else attempt.again)

    def sent(self, messages: Mapping[str, Sent], now: float) -> None:
        for message_id, sent in messages.items():
            pause, before = self._pause(sent.node), self.attempts.get(sent.node.key)
            times = before.times + 1 if before else 1
            # A second at first, twice as long each time.
            rest = now + 2.0 ** (times - 1)
            first = before.first if before else now
            self.attempts[sent.node.key] = Attempt(
                sent.node.since, now + pause, pause, times, rest, first
            )
            if failure := self.failed.get(sent.node.key):
                failure.pause *= 2
                failure.again = now + failure.pause
            self.waiting[message_id] = sent

    def answered(self, node: str, worth: ReplyValue) -> dict[str, Sent]:
        """The node's answer is known; its other messages, whose replies come too late."""
        self.settled.add(node)
        self.votes += worth is ReplyValue.VOTE
        self.valid += worth is not ReplyValue.NOTHING
        self.failed.pop(node, None)
        return self._withdraw(node)

    def dismissed(self, node: str, size: Size) -> dict[str, Sent]:
        """The node is neither asked nor waited for any more; its messages. `size` is without it."""
        self.size = size
        self.settled.add(node)
        self.seen.pop(node, None)
        self.failed.pop(node, None)
        return self._withdraw(node)

    def faltered(self, node: str, reason: str, now: float) -> None:
        """The node failed in a way that may pass; it can still answer.

        Not yet if it has another question: a repeated one runs out while the first is worked on.
        """
        failure = self.failed.get(node)
        if any(sent.node.key == node for sent in self.waiting.values()):
            return
        if failure:
            failure.reason = reason
        else:
            self.failed[node] = Failure(reason, now, now + FAILED_SECONDS, FAILED_SECONDS)

    def enough(self) -> bool:
        return self.votes >= self.size.goal

    def over(self, now: float) -> bool:
        """Enough nodes answered, or no node that could still answer is worth waiting for."""
        if self.enough() or now >= self.closes():
            return True
        if any(sent.node.key in self.online for sent in self.waiting.values()):
            return False
        few = (
            self.valid < self.needed if self.well is not None else len(self.seen) < self.size.seats
        )
        if few and now < self.join:
            return False
        hoped = self.seen.keys() if self.well is None else self.well
        return not any(self._may_return(node, now) for node in hoped)

    def _may_return(self, node: str, now: float) -> bool:
        if node in self.settled:
            return False
        failure = self.failed.get(node)
        since = failure.first if failure else self.seen.get(node, self.begun)
        return now < since + self.rejoin

    def failures(self) -> Iterator[tuple[str, str]]:
        """The nodes that failed to the end, and why."""
        for node, failure in sorted(self.failed.items()):
            yield node, failure.reason

    def _withdraw(self, node: str) -> dict[str, Sent]:
        gone = {i: sent for i, sent in self.waiting.items() if sent.node.key == node}
        for message_id in gone:
            del self.waiting[message_id]
        return gone


def in_order(nodes: Iterable[Node], draw: Mapping[str, int]) -> list[Node]:
    """By drawn number, so that nobody knows beforehand which node is left out."""
    return sorted(nodes, key=lambda node: (draw.get(node.key, 0), node.id))
