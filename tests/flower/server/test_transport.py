"""The server's side of a round, on a grid that says what the test wants it to say."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.needs import needs

needs("flwr")

from flwr.app import Error, Message, RecordDict
from flwr.supercore.run import RunNotRunningException

from fedse.config.schema import Config
from fedse.drivers.loop import federate
from fedse.events import read_events
from fedse.faults import Fault
from fedse.flower.messages.offences import FILE as OFFENCES
from fedse.flower.messages.offences import note_offence
from fedse.flower.messages.wire import reply_content
from fedse.flower.server import late, mailbox, schedule
from fedse.flower.server import transport as ask_module
from fedse.flower.server.fault_text import FLOWER_FAULTS
from fedse.flower.server.transport import GridAsk
from fedse.protocol import YES, Delivery, SiteReply
from fedse.store.run import Run
from fedse.testing import toy_adapter
from fedse.types import Adapter, ClientStats
from tests.toys.federation import NAMES, SPEC, first_request, toy_config

pytestmark = pytest.mark.usefixtures("task_identity")


class NodeInfo(NamedTuple):
    node_id: int
    name: str = ""
    last_activated_at: str = ""


Answer = Callable[[Message], Message | None]


class FakeGrid:
    """Gives each node's answer to its message; None = nothing yet."""

    def __init__(self, answers: dict[NodeInfo, Answer]) -> None:
        self._answers = {node.node_id: answer for node, answer in answers.items()}
        self.nodes = list(answers)
        self.asked: dict[str, Message] = {}

    def get_nodes(self) -> list[NodeInfo]:
        return self.nodes

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        for message in messages:
            number = str(len(self.asked))
            message.metadata.__dict__["_message_id"] = number
            self.asked[number] = message
        return list(self.asked)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        asked = [self.asked[i] for i in message_ids]
        said = [self._answers[m.metadata.dst_node_id](m) for m in asked]
        return [reply for reply in said if reply is not None]


def says(reply: SiteReply) -> Answer:
    return lambda message: Message(reply_content(reply, salt=5), reply_to=message)


def votes(place: int, seed: int = 0) -> Answer:
    return says(SiteReply(ClientStats(played=1), toy_adapter(SPEC, seed).to_bytes(), client=place))


def fails(code: int) -> Answer:
    return lambda message: Message(Error(code, "ward 7, Mr Miller"), reply_to=message)


def breaks(message: Message) -> Message:
    raise ValueError("bytes that Flower itself cannot read")


def silent(message: Message) -> None:
    return None


class Ticking:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    """What the round goes by; what is pulled from the grid still comes when it comes."""
    made = Ticking()
    monkeypatch.setattr(ask_module, "time", made)
    return made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Ticking) -> Iterator[Run]:
    monkeypatch.setattr(ask_module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(mailbox, "RETRY_SECONDS", 0.01)
    with closing(Run(tmp_path / "run", quick(), SPEC, clock=time.time)) as opened:
        yield opened


def quick(deadline: float = 0.3) -> Config:
    config = toy_config()
    limits = config.aggregate.model_copy(update={"deadline": deadline})
    return config.model_copy(update={"aggregate": limits})


def heard(run: Run, answers: dict[NodeInfo, Answer], *, join: float = 0.1) -> list[Delivery]:
    ask = GridAsk(FakeGrid(answers), run, join_seconds=join)
    adapter = toy_adapter(SPEC, 9)
    return list(ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES))


def test_replies_become_deliveries_named_by_their_place(run: Run):
    got = heard(run, {NodeInfo(100 + i): votes(i, seed=i) for i in range(5)})
    assert [delivery.client for delivery in got] == list(NAMES)
    assert [d.adapter for d in got] == [toy_adapter(SPEC, i).to_bytes() for i in range(5)]
    assert all(not delivery.fault for delivery in got)


def test_the_message_lives_as_long_as_the_round(run: Run):
    grid = FakeGrid({NodeInfo(1): votes(0)})
    adapter = toy_adapter(SPEC, 9)
    ask = GridAsk(grid, run, join_seconds=0)
    list(ask(first_request(run.config, adapter, round=7), adapter.to_bytes(), of=NAMES))
    (message,) = grid.asked.values()
    assert message.metadata.ttl == pytest.approx(0.3, abs=0.1)
    assert (message.metadata.ttl <= 0.3, message.metadata.group_id) == (True, "7")


def test_a_reply_the_superlink_refused_is_a_strike_of_its_sender(run: Run):
    """And the round does not wait for that site."""
    note_offence(run.path / OFFENCES, "1", "its reply names more objects than a reply has")
    first, second = (NodeInfo(i, NAMES[i]) for i in range(2))
    got = {d.client: d for d in heard(run, {first: votes(0), second: silent})}
    assert got[NAMES[0]].exclusion is None
    offence = got[NAMES[1]].exclusion
    assert offence is not None
    assert (offence.kind, offence.reason) == (
        "rejected",
        "its reply names more objects than a reply has",
    )


BROKEN = {
    "a fault of the site": (
        says(SiteReply(ClientStats(), fault=Fault(4), client=0)),
        Fault.ENVIRONMENT.words,
    ),
    "a fault nobody knows": (
        says(SiteReply(ClientStats(), fault=Fault(99), client=0)),
        Fault.UNFORESEEN.words,
    ),
    "an exception at the site": (fails(2), FLOWER_FAULTS[2]),
    "a node that went offline": (fails(5), FLOWER_FAULTS[5]),
    "an error nobody knows": (fails(77), "the site failed"),
    "a reply Flower cannot read": (breaks, "the reply cannot be read"),
    "an empty reply": (lambda m: Message(RecordDict(), reply_to=m), "other records"),
    "a client that is no member": (votes(5), "answered for no member"),
    "a client that is nobody": (votes(-1), "answered for no member"),
}


@pytest.mark.parametrize(("answer", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_what_one_node_breaks_is_its_own_fault(run: Run, answer: Answer, reason: str):
    # A fault that may pass is told when the round stops waiting for it.
    bad, good = sorted(heard(run, {NodeInfo(1): answer, NodeInfo(2): votes(1)}), reverse=True)
    assert (bad.client, bad.adapter) == ("node 1", None)
    assert reason in bad.fault
    assert "Miller" not in bad.fault
    assert (good.client, good.fault) == ("beta", "")


def test_a_node_speaks_only_for_the_client_it_is_registered_as(run: Run):
    answers = {NodeInfo(1, "alpha"): votes(1), NodeInfo(2, "beta"): votes(1), NodeInfo(3): votes(0)}
    got = heard(run, answers)
    assert [(d.client, d.fault) for d in got] == [
        ("alpha", "rejected: answered for beta"),
        ("beta", ""),
        ("node 3", "answered for alpha"),
    ]


def test_two_unregistered_nodes_may_claim_a_client_and_both_are_passed_on(run: Run):
    assert [d.client for d in heard(run, {NodeInfo(1): votes(2), NodeInfo(2): votes(2)})] == [
        "delta",
        "delta",
    ]


def test_a_silent_node_costs_the_deadline_and_no_more(run: Run, clock: Ticking):
    got = heard(run, {NodeInfo(1): silent, NodeInfo(2): votes(1), **absent(3)}, join=0)
    assert [delivery.client for delivery in got] == ["beta"]
    assert clock.now == pytest.approx(0.3, abs=ask_module.POLL_SECONDS)


def absent(count: int) -> dict[NodeInfo, Answer]:
    return {NodeInfo(50 + i): silent for i in range(count)}


def test_nodes_that_never_come_are_not_waited_for_for_ever(run: Run, clock: Ticking):
    assert heard(run, {}, join=0.2) == []
    assert clock.now == pytest.approx(0.2, abs=ask_module.POLL_SECONDS)


def test_a_busy_superlink_is_asked_again(run: Run):
    calls = []

    def busy_at_first(message: Message) -> Message:
        calls.append(1)
        if len(calls) < 3:
            raise httpx.ReadTimeout("busy")
        return votes(0)(message)

    (got,) = heard(run, {NodeInfo(1): busy_at_first})
    assert (got.client, got.fault, len(calls)) == ("alpha", "", 3)


def test_the_client_of_a_node_is_remembered_when_it_fails_later(run: Run):
    said: list[Answer] = [votes(3), fails(5)]
    grid = FakeGrid({NodeInfo(1): lambda message: said.pop(0)(message)})
    ask, adapter = GridAsk(grid, run, join_seconds=0), toy_adapter(SPEC, 9)
    first = list(ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES))
    grid.asked.clear()
    second = list(ask(first_request(run.config, adapter, round=2), adapter.to_bytes(), of=NAMES))
    assert (first[0].client, second[0].client) == ("epsilon", "epsilon")
    assert FLOWER_FAULTS[5] in second[0].fault


def test_a_site_that_is_away_is_not_waited_for_to_consent(run: Run, clock: Ticking):
    """It would hold up the others for as long as the first round waits for sites to come."""
    here = NodeInfo(1, "alpha")
    grid = FakeGrid({here: says(SiteReply(ClientStats(), YES))})
    ask, adapter = GridAsk(grid, run, join_seconds=600, well=["alpha"]), toy_adapter(SPEC, 9)
    question = first_request(run.config, adapter).model_copy(update={"kind": "agree"})
    begun = clock.monotonic()
    assert list(ask(question, b"terms", of=["gamma"])) == []
    assert [one.client for one in ask(question, b"terms", of=["alpha"])] == ["alpha"]
    assert clock.monotonic() - begun < 1


def test_a_run_on_this_grid_is_committed_and_names_the_offender(run: Run):
    answers = {NodeInfo(i): votes(i, seed=i) for i in range(4)}
    answers[NodeInfo(9)] = votes(3, seed=8)
    final: Adapter = federate(run, GridAsk(FakeGrid(answers), run, join_seconds=0), clock=time.time)
    assert run.committed == 2
    first = next(iter(run.results()))
    assert (first.voters, first.absent) == (NAMES[:4], ("gamma",))
    assert [(e.client, e.reason) for e in first.excluded] == [
        ("epsilon", "answered twice in one round")
    ]
    assert final.digest == run.adapter(2).digest


def test_the_bytes_of_a_reply_are_hashed_once(run: Run, monkeypatch: pytest.MonkeyPatch):
    """It tells an adapter that was sent back. Another hash is only needed if a node may repeat."""
    hashed, sha256 = list[bytes](), hashlib.sha256

    def noted(data: bytes = b"", **options: bool) -> Any:
        hashed.append(bytes(data))
        return sha256(data, **options)

    monkeypatch.setattr(hashlib, "sha256", noted)
    sent = [toy_adapter(SPEC, i).to_bytes() for i in range(5)]
    answers = {NodeInfo(i): votes(i, seed=i) for i in range(5)}
    federate(run, GridAsk(FakeGrid(answers), run, join_seconds=0), clock=time.time)
    assert run.committed == 2
    assert [hashed.count(data) for data in sent] == [run.committed] * 5


def test_what_else_lies_there_for_the_server_is_nobodys_reply(run: Run):
    """Flower gives it beside the reply; it may be in any name, and of any content."""

    class Mixed(FakeGrid):
        def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
            injected = Message(RecordDict(), 1, "train")
            return [injected, *super().pull_messages(message_ids)]

    ask = GridAsk(Mixed({NodeInfo(1, "alpha"): votes(0)}), run, join_seconds=0)
    adapter = toy_adapter(SPEC, 9)
    (got,) = ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES)
    assert (got.client, got.fault) == ("alpha", "")


def test_rejected_votes_and_abstentions_do_not_reach_the_goal(run: Run):
    goal = run.config.aggregate.model_copy(update={"goal": 1, "deadline": 5.0})
    run.config = run.config.model_copy(update={"aggregate": goal})
    short = says(SiteReply(ClientStats(), b"x", client=0))
    answers = {
        NodeInfo(1, "alpha"): short,
        NodeInfo(2, "beta"): says(SiteReply(ClientStats(), fault=Fault.PAUSED, client=1)),
        NodeInfo(3, "delta"): votes(2),
    }
    assert {d.client for d in heard(run, answers, join=0)} >= {"delta"}


def restarting(said: list[Answer]) -> Answer:
    """Says one after another, each once."""
    return lambda message: said.pop(0)(message)


def test_a_site_that_went_offline_and_came_back_is_counted_once(run: Run, monkeypatch):
    monkeypatch.setattr(schedule, "FAILED_SECONDS", 0.01)
    answers = {NodeInfo(1): restarting([fails(5), fails(4), votes(0, seed=3)])}
    (got,) = heard(run, answers, join=0)
    assert (got.client, got.fault, got.adapter) == ("alpha", "", toy_adapter(SPEC, 3).to_bytes())


def test_a_lost_message_is_sent_again_and_the_first_answer_settles(run: Run, monkeypatch):
    monkeypatch.setattr(schedule, "SILENCE_SECONDS", 0.02)
    monkeypatch.setattr(schedule, "ANSWER_SECONDS", 0.0)
    lost = {"0"}

    def answers_all_but_the_lost(message: Message) -> Message | None:
        return None if message.metadata.message_id in lost else votes(0)(message)

    grid = FakeGrid({NodeInfo(1): answers_all_but_the_lost})
    adapter = toy_adapter(SPEC, 9)
    ask = GridAsk(grid, run, join_seconds=0)
    (got,) = ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES)
    assert (got.client, got.fault, len(grid.asked)) == ("alpha", "", 2)


def test_a_late_reply_is_noted_and_kept_and_never_counted(run: Run, monkeypatch):
    monkeypatch.setattr(late, "LOOK_SECONDS", 0.0)
    goal = run.config.aggregate.model_copy(update={"goal": 1, "deadline": 20.0})
    run.config = run.config.model_copy(update={"aggregate": goal})
    slow: list[Answer] = [silent, votes(1, seed=7), votes(1, seed=8)]
    grid = FakeGrid({NodeInfo(1): votes(0), NodeInfo(2): restarting(slow)})
    ask, adapter = GridAsk(grid, run, join_seconds=0), toy_adapter(SPEC, 9)
    monkeypatch.setattr(ask_module, "in_order", lambda nodes, draw: sorted(nodes, reverse=True))
    first = list(ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES))
    second = list(ask(first_request(run.config, adapter, round=2), adapter.to_bytes(), of=NAMES))
    assert [delivery.client for delivery in first] == ["alpha"]
    assert [delivery.client for delivery in second] == ["beta"]
    told = list(read_events(run.path / "events.jsonl", ['"answer.late"']))
    assert [(e["round"], e["client"], e["again"]) for e in told] == [(1, "beta", False)]
    (kept,) = (run.path / "late").iterdir()
    assert kept.name == "001-beta.safetensors"


def test_answers_of_rounds_that_nobody_answers_any_more_are_not_remembered(run: Run):
    class NoReplies:
        def replies(self, waiting: object) -> tuple[()]:
            return ()

    replies, boxes = late.LateReplies(run), NoReplies()
    for round in range(1, 51):
        replies.counted(round, "node", b"x")
    node = mailbox.Node(1, "alpha", "")
    replies.expect({"late": mailbox.Sent(node, 7, float("inf"))})
    replies.look(boxes, lambda sent, reply: None)
    assert {round for round, _ in replies._counted} == {7, 50}


def test_a_run_that_flower_gave_up_is_no_nodes_fault(run: Run):
    def gone(message: Message) -> Message:
        raise RunNotRunningException

    with pytest.raises(RunNotRunningException):
        heard(run, {NodeInfo(1): gone, NodeInfo(2): votes(1)})


def test_a_server_that_was_started_again_does_not_wait_for_who_was_away_before(
    run: Run, clock: Ticking
):
    answers = {NodeInfo(1, "alpha"): votes(0), NodeInfo(2, "beta"): votes(1)}
    adapter = toy_adapter(SPEC, 9)
    ask = GridAsk(FakeGrid(answers), run, join_seconds=100.0, well=("alpha", "beta"))
    assert [
        d.client for d in ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES)
    ] == ["alpha", "beta"]
    assert clock.now == 0.0


def test_an_upload_that_never_ends_holds_up_nobody_else(run: Run, monkeypatch):
    monkeypatch.setattr(mailbox, "PULL_SECONDS", 0.05)
    may_end, has_ended = threading.Event(), threading.Event()

    def hangs(message: Message) -> None:
        may_end.wait()
        has_ended.set()

    got = heard(run, {NodeInfo(1): hangs, NodeInfo(2): votes(1)}, join=0)
    assert not has_ended.is_set()
    may_end.set()
    assert [delivery.client for delivery in got] == ["beta"]


def test_an_upload_that_takes_long_is_counted_when_it_is_whole(run: Run, monkeypatch):
    """By the real clock, with a deadline that no machine is too busy for."""
    monkeypatch.setattr(mailbox, "PULL_SECONDS", 0.01)
    monkeypatch.setattr(ask_module, "time", time)
    run.config = quick(deadline=60.0)

    def slow(message: Message) -> Message:
        time.sleep(0.1)
        return votes(0)(message)

    (got,) = heard(run, {NodeInfo(1): slow}, join=0)
    assert (got.client, got.fault) == ("alpha", "")


def named(*answers: Answer) -> dict[NodeInfo, Answer]:
    return {NodeInfo(i + 1, NAMES[i]): answer for i, answer in enumerate(answers)}


def patient(run: Run, *, goal: int = 0) -> None:
    limits = run.config.aggregate.model_copy(update={"deadline": 1000.0, "goal": goal})
    run.config = run.config.model_copy(update={"aggregate": limits})


def test_a_round_does_not_wait_for_a_site_that_is_revoked_while_it_is_asked(
    run: Run, clock: Ticking
):
    patient(run)
    grid = FakeGrid(named(*(votes(i) for i in range(4)), silent))

    def revoked() -> tuple[str, ...]:
        return (NAMES[4],) if clock.now >= 7 else ()

    ask, adapter = GridAsk(grid, run, join_seconds=0, revoked=revoked), toy_adapter(SPEC, 9)
    got = list(ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES))
    assert 7 <= clock.now < 7.1
    assert [(d.client, d.fault) for d in got] == [
        *((name, "") for name in NAMES[:4]),
        (NAMES[4], "revoked: its key was revoked"),
    ]


@pytest.mark.parametrize("well", [None, NAMES])
def test_a_site_that_was_revoked_before_is_neither_asked_nor_waited_for(
    run: Run, clock: Ticking, well
):
    """Not in the first round, which waits for all members, and not where it had answered last."""
    patient(run)
    grid = FakeGrid(named(*(votes(i) for i in range(4)), silent))
    ask = GridAsk(grid, run, join_seconds=600.0, well=well, revoked=lambda: {NAMES[4]})
    adapter = toy_adapter(SPEC, 9)
    got = list(ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES))
    assert clock.now == 0.0
    assert {m.metadata.dst_node_id for m in grid.asked.values()} == {1, 2, 3, 4}
    assert sorted(d.client for d in got) == sorted(NAMES)


@pytest.mark.parametrize(("free", "seconds"), [({NAMES[4]}, 0.0), (set(), 60.0)])
def test_nobody_waits_for_a_free_place(run: Run, clock: Ticking, free: set[str], seconds: float):
    patient(run)
    ask = GridAsk(
        FakeGrid(named(*(votes(i) for i in range(4)))), run, join_seconds=60.0, free=lambda: free
    )
    adapter = toy_adapter(SPEC, 9)
    got = list(ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES))
    assert sorted(d.client for d in got) == sorted(NAMES[:4])
    assert clock.now == pytest.approx(seconds, abs=1.0)


def test_who_has_taken_a_free_place_is_asked(run: Run, clock: Ticking):
    patient(run)
    grid = FakeGrid(named(*(votes(i) for i in range(5))))
    ask = GridAsk(grid, run, join_seconds=600.0, well=NAMES[:4], free=tuple)
    adapter = toy_adapter(SPEC, 9)
    got = list(ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES))
    assert sorted(d.client for d in got) == sorted(NAMES)
    assert clock.now == 0.0


def test_who_takes_a_place_in_a_round_gets_no_seat_of_one_that_is_away(run: Run, clock: Ticking):
    """It is asked from the next question on."""
    patient(run)
    grid, free = FakeGrid(named(*(votes(i) for i in range(5)))), {NAMES[4]}
    away, *there, newcomer = grid.nodes
    adapter = toy_adapter(SPEC, 9)
    question = first_request(run.config, adapter)

    def beat() -> None:
        taken, back = clock.now > 2, clock.now > 4
        free.difference_update({NAMES[4]} if taken else ())
        grid.nodes = [*[away] * back, *there, *[newcomer] * taken]

    ask = GridAsk(grid, run, join_seconds=0.0, well=NAMES[:4], free=lambda: free, beat=beat)
    got = list(ask(question, adapter.to_bytes(), of=NAMES))
    assert sorted(d.client for d in got) == sorted(NAMES[:4])
    got = list(ask(question, adapter.to_bytes(), of=NAMES))
    assert sorted(d.client for d in got) == sorted(NAMES)


def test_what_a_site_answered_before_it_was_revoked_counts(run: Run, clock: Ticking):
    patient(run)
    grid = FakeGrid(named(*(votes(i) for i in range(4)), silent))

    def revoked() -> tuple[str, ...]:
        return (NAMES[0], NAMES[4]) if clock.now >= 1 else ()

    ask, adapter = GridAsk(grid, run, join_seconds=0, revoked=revoked), toy_adapter(SPEC, 9)
    got = {
        d.client: d.fault
        for d in ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES)
    }
    assert got == {**dict.fromkeys(NAMES[:4], ""), NAMES[4]: "revoked: its key was revoked"}


def test_a_site_that_enrolled_again_is_asked_in_the_next_round(run: Run):
    grid, out = FakeGrid(named(*(votes(i) for i in range(5)))), {NAMES[4]}
    ask, adapter = GridAsk(grid, run, join_seconds=0, revoked=lambda: out), toy_adapter(SPEC, 9)
    first = list(ask(first_request(run.config, adapter), adapter.to_bytes(), of=NAMES))
    out.clear()
    second = list(ask(first_request(run.config, adapter, round=2), adapter.to_bytes(), of=NAMES))
    assert [sum(not d.fault for d in got) for got in (first, second)] == [4, 5]


def test_a_revoked_site_is_no_strike_and_costs_no_bytes(run: Run):
    grid = FakeGrid(named(*(votes(i, seed=i) for i in range(4)), silent))
    ask = GridAsk(grid, run, join_seconds=0, revoked=lambda: {NAMES[4]})
    federate(run, ask, clock=time.time)
    for result in run.results():
        assert [(e.client, e.kind) for e in result.excluded] == [(NAMES[4], "revoked")]
        assert (result.absent, result.bytes_down) == ((), 4 * SPEC.nbytes)
