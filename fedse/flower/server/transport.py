"""Ask the nodes of a round over Flower's Grid and read what arrives in time.

Whatever one node sends, or fails to send, is that node's fault and never the end of the run. Each
node counts once: the first answer that can be read settles it, any other is late.
"""

import time
from collections.abc import Callable, Collection, Iterator

from flwr.app import Message
from flwr.serverapp import Grid

from fedse.aggregate.factors import layout_of, travelling_spec
from fedse.aggregate.validate import parse_adapter
from fedse.errors import AdapterRejected, WireError
from fedse.flower.messages.offences import FILE as OFFENCES
from fedse.flower.messages.offences import OffenceReader
from fedse.flower.messages.wire import read_reply, request_content
from fedse.flower.server.fault_text import (
    PASSING_IN_FLOWER,
    flower_fault,
    site_fault,
)
from fedse.flower.server.late import LateReplies
from fedse.flower.server.mailbox import Mailbox, Node, Sent
from fedse.flower.server.pace import Pace
from fedse.flower.server.schedule import Asking, ReplyValue, Size, in_order, size_of
from fedse.protocol import KINDS, UNNAMED, Delivery, Question, SiteReply, Sizes, undelivered
from fedse.seeds import seed_of
from fedse.store.run import Run

# Seconds between two looks for replies and nodes.
POLL_SECONDS = 1.0
# Seconds to say yes or no; a site that is busy for longer is left out of the round.
BRIEF_SECONDS = 60.0
REVOKED = "its key was revoked"


class GridAsk:
    """Asks the online nodes; remembers which client each answered for, to name those that fail.

    `well` are the sites that answered last, before this server was started: of the others, only as
    many are waited for as the round needs. None = nobody was ever asked. `revoked` returns the
    members that no longer have a key; they are not waited for once it names them. `free` returns
    the places that no site has taken; whoever takes one is asked from the next question on. `beat`
    is called with every look for replies.
    """

    def __init__(
        self,
        grid: Grid,
        run: Run,
        *,
        join_seconds: float,
        well: Collection[str] | None = None,
        revoked: Callable[[], Collection[str]] = tuple,
        free: Callable[[], Collection[str]] = tuple,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._revoked, self._free, self._beat = revoked, free, beat
        self._mailbox, self._run, self._join_seconds = Mailbox(grid), run, join_seconds
        self._members = sorted(client.name for client in run.config.clients)
        travelling = travelling_spec(run.spec, run.config)
        self._sizes = Sizes(travelling.nbytes, len(self._members))
        self._spoke: dict[str, str] = {}
        self._registered: set[str] = set()
        self._well = None if well is None else frozenset(well)
        self._took: dict[str, float] = {}
        self._late, self._pace = LateReplies(run), Pace(run.config.aggregate)
        self._offences = OffenceReader(run.path / OFFENCES)

    def __call__(
        self, question: Question, body: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        """What these members answer, as it comes."""
        content, train = request_content(question.model_dump(mode="json"), body), question.trains
        # Who takes a place while others answer does not get their seat when one of them is away.
        out, well = {*self._members} - {*of} | {*self._free()}, set[str]()
        asking = self._begin(out, question)
        while True:
            self._beat()
            yield from self._dismiss_revoked(asking, out, train=train)
            due = asking.due(self._nodes(question, out), time.monotonic())
            messages = self._mailbox.send(due, content, round=question.round)
            asking.sent(messages, time.monotonic())
            for delivery, node in self._read_arrivals(asking, question):
                if not delivery.fault:
                    well.add(node)
                yield delivery
            self._late.look(self._mailbox, self._read_late)
            if asking.over(time.monotonic()):
                break
            time.sleep(POLL_SECONDS)
        self._late.expect(asking.waiting)
        took = {node: self._took[node] for node in well}
        self._pace.note(question.kind, asking.attempts, took)
        for node, reason in asking.failures():
            yield undelivered(self._name_of(node), "failed", reason)
        unasked = (self._well or frozenset()) - (asking.well or frozenset())
        self._well = frozenset(well | unasked)

    def _begin(self, out: set[str], question: Question) -> Asking:
        limits, now = self._run.config.aggregate, time.monotonic()
        brief = BRIEF_SECONDS if question.kind in ("news", "agree") else limits.deadline
        limit, before = min(limits.deadline, brief), self._well
        deadline = min(limit, self._pace.deadline(question.kind))
        asked = None if before is None else {n for n in before if self._name_of(n) not in out}
        # The wait for sites to come at all does not use up the time they have to answer. Only who
        # was well is waited for to consent: a site that is away would hold up the others.
        waits = question.kind != "agree" or before is None
        join = now + (self._join_seconds if waits else 0.0)
        self._join_seconds = 0.0 if waits else self._join_seconds
        return Asking(
            begun=now,
            ends=join + limit,
            rejoin=limits.rejoin,
            size=self._size(out, train=question.trains),
            well=None if asked is None else frozenset(asked),
            join=join,
            needed=limits.min_clients if waits else 0,
            deadline=deadline,
            lasting=limits.late * deadline if question.trains else 0.0,
            took=self._took,
        )

    def _size(self, out: set[str], *, train: bool) -> Size:
        members = len({*self._members} - out)
        # The last adapter is measured by all.
        return size_of(members, self._run.config.aggregate.goal if train else 0)

    def _dismiss_revoked(self, asking: Asking, out: set[str], *, train: bool) -> Iterator[Delivery]:
        """Members that were revoked by now are in `out`; what one answered before counts."""
        for name in sorted(({*self._revoked()} & {*self._members}) - out - asking.settled):
            out.add(name)
            self._late.expect(asking.dismissed(name, self._size(out, train=train)))
            yield undelivered(name, "revoked", REVOKED)

    def _nodes(self, question: Question, skip: Collection[str]) -> list[Node]:
        """The nodes that may be asked, in the order in which this round prefers them.

        One whose late vote is still of use is left to it. The last adapter is measured by all.
        """
        busy = {} if question.kind == "evaluate" else self._late.busy(question.round)
        nodes = [
            n
            for n in self._mailbox.present()
            if (n.name or self._spoke.get(n.key)) not in skip
            and self._may_be_member(n)
            and busy.get(n.key) != n.since
        ]
        self._registered |= {node.name for node in nodes if node.name}
        if not self._run.config.aggregate.goal:
            return nodes
        seed = self._run.config.run.seed
        return in_order(nodes, {n.key: seed_of(seed, question.round, n.key) for n in nodes})

    def _may_be_member(self, node: Node) -> bool:
        """Not a site that joins with a later agreement, or was a member before this one."""
        return not node.name or node.name in self._members

    def _read_arrivals(self, asking: Asking, question: Question) -> Iterator[tuple[Delivery, str]]:
        """The answers that settle a node; no more are read than the round needs."""
        most = KINDS[question.kind].up(self._sizes)
        for message_id, what in self._offences.new().items():
            if sent := asking.waiting.pop(message_id, None):
                self._late.expect(asking.answered(sent.node.key, ReplyValue.NOTHING))
                yield _offence(sent.node, self._name_of(sent.node.key), what), sent.node.key
        for message_id, sent, reply in self._mailbox.replies(asking.waiting):
            node = sent.node.key
            del asking.waiting[message_id]
            delivery, passing = self._interpret(sent.node, reply, most)
            if passing:
                asking.faltered(node, delivery.fault, time.monotonic())
                continue
            self._took[node] = time.monotonic() - asking.attempts[node].first
            others = asking.answered(node, self._worth(delivery, question))
            self._late.expect(others)
            self._late.counted(sent.round, node, (delivery.adapter or b"") if others else None)
            yield delivery, node
            if asking.enough():
                return

    def _worth(self, delivery: Delivery, question: Question) -> ReplyValue:
        """Only a vote that will count brings a round nearer to its goal."""
        if delivery.fault:
            return ReplyValue.NOTHING
        if delivery.adapter is None:
            return ReplyValue.NO_VOTE
        limits = self._run.config.aggregate
        if limits.goal and question.trains:
            returned = travelling_spec(self._run.spec, self._run.config)
            try:
                parse_adapter(delivery.adapter, layout_of(delivery.adapter, returned), limits)
            except AdapterRejected:
                return ReplyValue.NOTHING
        return ReplyValue.VOTE

    def _name_of(self, node: str) -> str:
        return self._spoke.get(node, node)

    def _interpret(self, node: Node, reply: Message | None, most: int) -> tuple[Delivery, bool]:
        """What a reply means, and whether the node may answer if it is asked again."""
        name = self._name_of(node.key)
        if reply is not None and reply.has_error():
            code = reply.error.code
            fault = undelivered(name, "failed", flower_fault(code))
            return fault, code in PASSING_IN_FLOWER
        if reply is None:
            # Perhaps not the node's fault: what Flower reads with a reply may be another's.
            return undelivered(name, "failed", "the reply cannot be read"), True
        try:
            answer = read_reply(reply.content, max_bytes=most)
        except WireError as error:
            return undelivered(name, "rejected", str(error)), False
        if answer.fault and not answer.fault.abstains:
            fault = undelivered(name, "failed", site_fault(answer.fault))
            return fault, answer.fault.passing
        return self._from_member(node, answer), False

    def _from_member(self, node: Node, reply: SiteReply) -> Delivery:
        sender = self._name_of(node.key)
        if reply.client == UNNAMED and node.name:
            return Delivery(node.name, reply.stats, reply.adapter)
        if not 0 <= reply.client < len(self._members):
            return _offence(node, sender, "answered for no member")
        name = self._members[reply.client]
        if node.name != name and (node.name or name in self._registered):
            return _offence(node, sender, f"answered for {name}")
        self._spoke[node.key] = name
        if reply.fault:
            self._run.emit("answer.abstained", client=name, reason=reply.fault.words)
            return Delivery(name, reply.stats)
        return Delivery(name, reply.stats, reply.adapter)

    def _read_late(self, sent: Sent, reply: Message | None) -> tuple[str, bytes] | None:
        """Who sent it and its adapter; None = Flower reports that none will come."""
        if reply is not None and reply.has_error():
            return None
        name = self._name_of(sent.node.key)
        most = KINDS["train"].up(self._sizes)
        try:
            answer = read_reply(reply.content, max_bytes=most) if reply else None
        except WireError:
            answer = None
        return name, (answer.adapter or b"") if answer else b""


def _offence(node: Node, sender: str, what: str) -> Delivery:
    """A strike for a registered node, which proved its key; others may use a false name."""
    return undelivered(sender, "rejected" if node.name else "failed", what)
