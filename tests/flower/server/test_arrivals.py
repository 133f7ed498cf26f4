"""One request asks for all replies, each is read by itself; through Flower's own Grid."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from tests.needs import needs

needs("flwr")

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid

from fedse.flower.server.mailbox import Mailbox, Node, Sent

RUN, NODES = 7, 40


def reply_to(number: int) -> tuple[str, Message]:
    """The id of a question, and what its node answers."""
    asked = Message(RecordDict({"n": ConfigRecord({"n": number})}), number, MessageType.TRAIN)
    asked.metadata.__dict__.update(_message_id=asked.object_id)
    reply = Message(RecordDict({"n": ConfigRecord({"n": number})}), reply_to=asked)
    reply.metadata.__dict__["_message_id"] = reply.object_id
    return asked.object_id, reply


class Link:
    """In the place of Flower's client: tells of a reply once, and counts what it is asked for."""

    def __init__(self) -> None:
        self.arrived: dict[str, Message] = {}
        self.objects: dict[str, bytes] = {}
        self.asked = Counter[str]()
        self.fails: dict[str, Exception] = {}
        self.poison = ""

    def arrive(self, question: str, reply: Message) -> None:
        self.arrived[question] = reply
        objects = get_all_nested_objects(reply)
        self.objects |= {name: one.deflate() for name, one in objects.items()}

    def _count(self, what: str) -> None:
        self.asked[what] += 1
        if what in self.fails:
            raise self.fails.pop(what)

    def PullMessages(self, request: Any) -> Any:
        self._count("PullMessages")
        if self.poison in request.message_ids:
            raise status(500)
        told = [self.arrived.pop(i) for i in request.message_ids if i in self.arrived]
        return PullAppMessagesResponse(
            messages_list=[message_to_proto(one) for one in told],
            message_object_trees=[get_object_tree(one) for one in told],
        )

    def PullObject(self, request: Any) -> Any:
        self._count("PullObject")
        content = self.objects[request.object_id]
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request: Any) -> None:
        self._count("Confirm")


def status(code: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://localhost")
    return httpx.HTTPStatusError("", request=request, response=httpx.Response(code))


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> dict[str, Message]:
    monkeypatch.setattr(TaskIdentity, "_run_id", RUN)
    monkeypatch.setattr(TaskIdentity, "_node_id", 1)
    monkeypatch.setattr(TaskIdentity, "_task_id", 1)
    return dict(reply_to(number) for number in range(2, NODES + 2))


def waiting_for(questions: Iterable[str]) -> dict[str, Sent]:
    return {q: Sent(Node(i, f"site-{i}", ""), 1, 1e12) for i, q in enumerate(questions)}


def mailbox(link: Link) -> Mailbox:
    grid = HttpGrid(token="t", insecure=True)
    grid._client = link  # type: ignore[assignment]
    run: Any = type("Run", (), {"run_id": RUN})()
    grid._run = run
    return Mailbox(grid)


def numbers(found: Iterable[tuple[str, Sent, Message | None]]) -> dict[str, int | None]:
    return {q: None if r is None else int(r.content["n"]["n"]) for q, _, r in found}  # type: ignore[index, arg-type]


def test_one_request_asks_for_all_and_each_reply_is_its_own(link, questions):
    box, waiting = mailbox(link), waiting_for(questions)
    assert numbers(box.replies(waiting)) == {}
    assert link.asked == {"PullMessages": 1}
    came = list(questions)[3:30:4]
    for question in came:
        link.arrive(question, questions[question])
    expected = {q: n for n, q in enumerate(questions, 2) if q in came}
    assert numbers(box.replies(waiting)) == expected
    assert link.asked["PullMessages"] == 2
    assert link.asked["Confirm"] == len(came)


def test_a_reply_is_read_when_it_is_its_turn(link, questions):
    box, waiting = mailbox(link), waiting_for(questions)
    for question, reply in questions.items():
        link.arrive(question, reply)
    replies = box.replies(waiting)
    next(replies)
    assert link.asked["Confirm"] == 1
    replies.close()
    # What is not read yet is not lost, although the SuperLink told of it only once.
    left = {q: sent for i, (q, sent) in enumerate(waiting.items()) if i}
    assert list(numbers(box.replies(left))) == list(left)


def test_a_reply_that_the_superlink_cannot_tell_of_hides_no_other(link, questions):
    box, waiting = mailbox(link), waiting_for(questions)
    first, second, *_ = questions
    link.poison = first
    link.arrive(second, questions[second])
    assert numbers(box.replies(waiting)) == {second: 3}


@pytest.mark.parametrize("error", [status(503), httpx.ConnectError("")], ids=["503", "away"])
def test_a_superlink_that_is_busy_is_asked_once_and_then_again(link, questions, error):
    box, waiting = mailbox(link), waiting_for(questions)
    first, *_ = questions
    link.arrive(first, questions[first])
    link.fails["PullMessages"] = error
    assert numbers(box.replies(waiting)) == {}
    assert link.asked == {"PullMessages": 1}
    assert numbers(box.replies(waiting)) == {first: 2}


def test_a_reply_is_read_again_when_the_superlink_went_away_meanwhile(link, questions):
    box, waiting = mailbox(link), waiting_for(questions)
    first, *_ = questions
    link.arrive(first, questions[first])
    link.fails["Confirm"] = httpx.ConnectError("")
    assert numbers(box.replies(waiting)) == {}
    assert numbers(box.replies(waiting)) == {first: 2}
