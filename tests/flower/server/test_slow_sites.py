"""Rounds with slow sites, on a grid by whose clock each site takes the time the test gives it."""

import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from flwr.app import Message

from fedse.committed import RoundResult
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.drivers.loop import federate
from fedse.flower.messages.wire import read_request, reply_content
from fedse.flower.server import late, mailbox
from fedse.flower.server import transport as ask_module
from fedse.flower.server.transport import GridAsk
from fedse.protocol import SiteReply
from fedse.store.run import Run
from fedse.testing import toy_adapter
from fedse.types import ClientStats
from tests.flower.server.test_transport import NodeInfo, Ticking
from tests.toys.federation import NAMES, SPEC, toy_config

pytestmark = pytest.mark.usefixtures("task_identity")

LIMIT = 1000.0
TOOK = dict(zip(NAMES, (20.0, 20.0, 22.0, 24.0, 300.0), strict=True))
"""The last site is slow; the median site takes 22 seconds."""
SLOW = NAMES[-1]


class SlowGrid:
    """Each node works on one message at a time, as Flower's do, until it is done or expired."""

    def __init__(self, clock: Ticking, took: dict[str, float]) -> None:
        self._clock, self._took = clock, took
        self.sent: dict[str, tuple[str, Message, float]] = {}
        self._free = dict.fromkeys(took, 0.0)
        self._done: dict[tuple[str, str], float] = {}

    def get_nodes(self) -> list[NodeInfo]:
        return [NodeInfo(i, name) for i, name in enumerate(self._took)]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        for message in messages:
            number, name = str(len(self.sent)), NAMES[message.metadata.dst_node_id]
            message.metadata.__dict__["_message_id"] = number
            key = name, message.metadata.group_id
            begun = max(self._clock.now, self._free[name])
            # The same question is answered once more from the outbox.
            done = max(self._clock.now, self._done.get(key, begun + self._took[name]))
            ends = self._clock.now + message.metadata.ttl
            self._done.setdefault(key, done)
            self._free[name] = max(self._free[name], min(done, ends))
            self.sent[number] = name, message, done if done <= ends else float("inf")
        return list(self.sent)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        found = [self.sent[i] for i in message_ids]
        return [_reply(name, m) for name, m, done in found if done <= self._clock.now]

    def asked(self, name: str) -> list[int]:
        """The rounds that the site was asked to train in."""
        told = [
            read_request(message.content)[0]
            for who, message, _ in self.sent.values()
            if who == name
        ]
        return [int(str(one["round"])) for one in told if one["kind"] == "train"]


def _reply(name: str, message: Message) -> Message:
    trains = read_request(message.content)[0]["kind"] == "train"
    seed = 10 * int(message.metadata.group_id) + NAMES.index(name)
    adapter = toy_adapter(SPEC, seed).to_bytes() if trains else None
    stats = ClientStats(played=1 if trains else 0, buffered=1)
    answer = SiteReply(stats, adapter, client=NAMES.index(name))
    return Message(reply_content(answer, salt=5), reply_to=message)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    made = Ticking()
    for module in (ask_module, mailbox, late):
        monkeypatch.setattr(module, "time", made)
    return made


def settings(**changes: object) -> Config:
    plain = {"run.rounds": 6, "eval.episodes": 0, "aggregate.deadline": LIMIT, **changes}
    return with_settings(toy_config(), plain)


@pytest.fixture
def grid(clock: Ticking) -> SlowGrid:
    return SlowGrid(clock, TOOK)


def rounds(path: Path, config: Config, grid: SlowGrid, clock: Ticking) -> list[RoundResult]:
    with closing(Run(path, config, SPEC, clock=time.time)) as run:
        federate(run, GridAsk(grid, run, join_seconds=0), clock=time.time, timer=clock.monotonic)
        return [*run.results()]


def test_by_default_every_round_waits_for_the_slow_site(tmp_path: Path, grid, clock: Ticking):
    results = rounds(tmp_path, settings(), grid, clock)
    assert [r.seconds for r in results] == pytest.approx([300.0] * 6, abs=2.0)
    assert all(r.voters == NAMES for r in results)


def test_with_a_pace_only_the_first_round_does(tmp_path: Path, grid, clock: Ticking):
    """The others wait twice the time of the median site, within a look for replies."""
    results = rounds(tmp_path, settings(**{"aggregate.pace": 2.0}), grid, clock)
    assert [r.seconds for r in results] == pytest.approx([300.0] + [44.0] * 5, abs=4.0)
    assert [r.absent for r in results] == [()] + [(SLOW,)] * 5


def test_a_late_vote_counts_and_who_is_at_work_is_not_asked_anew(
    tmp_path: Path, grid, clock: Ticking
):
    changes = {"aggregate.pace": 2.0, "aggregate.late": 20, "run.rounds": 16}
    results = rounds(tmp_path, settings(**changes), grid, clock)
    joined = {r.index: [(v.client, v.round) for v in r.late] for r in results if r.late}
    (index,) = joined
    assert joined[index] == [(SLOW, 2)]
    asked = grid.asked(SLOW)
    # Asked in round 2 again when it was silent, never while a late answer was of use.
    assert sorted({*asked}) == [1, 2, index]
    assert results[index - 1].voters == NAMES
    assert results[index - 1].late[0].weight == (1 + index - 2) ** -0.5


def test_a_site_that_came_back_is_asked_though_a_late_vote_was_expected(
    tmp_path: Path, grid, clock: Ticking, monkeypatch: pytest.MonkeyPatch
):
    """Its earlier work is lost with the process that did it."""
    monkeypatch.setattr(
        grid,
        "get_nodes",
        lambda: [
            NodeInfo(i, name, "later" if name == SLOW and clock.now > 400 else "")
            for i, name in enumerate(NAMES)
        ],
    )
    changes = {"aggregate.pace": 2.0, "aggregate.late": 20, "run.rounds": 8}
    rounds(tmp_path, settings(**changes), grid, clock)
    assert {1, 2} < {*grid.asked(SLOW)}
