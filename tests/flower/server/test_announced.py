"""One request finds the replies of all nodes, and no node's reply is in the way of another's."""

import threading
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace

import httpx
import pytest

from tests.needs import needs

needs("flwr")

from flwr.app import Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.superlink.grid import HttpGrid

from fedse.flower.messages.wire import read_reply, reply_content
from fedse.flower.server import mailbox
from fedse.flower.server.mailbox import Mailbox, Node, Sent
from fedse.protocol import SiteReply
from fedse.types import ClientStats

pytestmark = pytest.mark.usefixtures("task_identity")

IDS = ("a", "b", "c")
WAITING = {name: Sent(Node(i, name, ""), 1, 1e9) for i, name in enumerate(IDS)}


class FakeSuperLink:
    """Has a reply to each message, hands it out once, and counts what it is asked."""

    def __init__(self, replies: Mapping[str, Message]) -> None:
        self.replies = dict(replies)
        self.asked: list[list[str]] = []
        self.read: list[str] = []
        self.content = {
            part: piece.deflate()
            for reply in replies.values()
            for part, piece in get_all_nested_objects(reply).items()
        }
        self.before_read: Callable[[str], None] = lambda part: None

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse:
        self.asked.append(list(request.message_ids))
        there = [self.replies.pop(i) for i in request.message_ids if i in self.replies]
        return PullAppMessagesResponse(
            messages_list=[message_to_proto(remove_content_from_message(m)) for m in there],
            message_object_trees=[get_object_tree(m) for m in there],
        )

    def PullObject(self, request: PullObjectRequest) -> PullObjectResponse:
        self.read.append(request.object_id)
        self.before_read(request.object_id)
        content = self.content[request.object_id]
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request: object) -> None:
        """Nothing is kept."""


def reply_to(message_id: str, place: int, size: int = 8) -> Message:
    question = Message(RecordDict(), 1, "train")
    question.metadata.__dict__["_message_id"] = message_id
    reply = SiteReply(ClientStats(played=place), bytes([place]) * size, client=place)
    message = Message(reply_content(reply), reply_to=question)
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


def parts_of(message: Message) -> set[str]:
    return set(get_all_nested_objects(message))


@pytest.fixture
def replies() -> dict[str, Message]:
    return {name: reply_to(name, place) for place, name in enumerate(IDS)}


def over(link: FakeSuperLink) -> Mailbox:
    grid = HttpGrid("nowhere", insecure=True, token="t")
    grid._client, grid._run = link, SimpleNamespace(run_id=1)
    return Mailbox(grid)


def places(got: Iterable[tuple[str, Sent, Message | None]]) -> dict[str, int | None]:
    return {
        name: None if reply is None else read_reply(reply.content, max_bytes=8).client
        for name, _, reply in got
    }


def test_all_replies_are_found_by_one_request(replies: dict[str, Message]):
    link = FakeSuperLink(replies)
    box = over(link)
    assert places(box.replies(WAITING)) == {"a": 0, "b": 1, "c": 2}
    assert [sorted(ids) for ids in link.asked] == [["a", "b", "c"]]


def test_nothing_is_read_before_its_turn(replies: dict[str, Message]):
    link = FakeSuperLink(replies)
    looking = over(link).replies(WAITING)
    next(looking)
    assert set(link.read) == parts_of(replies["a"])


def test_what_a_look_left_unread_is_read_later_without_asking_again(replies: dict[str, Message]):
    link = FakeSuperLink(replies)
    box = over(link)
    next(box.replies(WAITING))
    rest = {name: WAITING[name] for name in ("b", "c")}
    assert places(box.replies(rest)) == {"b": 1, "c": 2}
    assert len(link.asked) == 1


def test_an_unreadable_reply_is_its_nodes_alone(replies: dict[str, Message]):
    link = FakeSuperLink(replies)
    link.content[replies["b"].object_id] = b"what Flower cannot read"
    assert places(over(link).replies(WAITING)) == {"a": 0, "b": None, "c": 2}


def test_an_upload_that_does_not_end_holds_up_nobody_and_counts_when_it_does(
    replies: dict[str, Message], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mailbox, "PULL_SECONDS", 0.2)
    link, may_end, slow = FakeSuperLink(replies), threading.Event(), parts_of(replies["a"])
    link.before_read = lambda part: may_end.wait() if part in slow else None
    box = over(link)
    assert places(box.replies(WAITING)) == {"b": 1, "c": 2}
    may_end.set()
    box._pulls["a"].join()
    assert places(box.replies({"a": WAITING["a"]})) == {"a": 0}
    assert len(link.asked) == 1


def test_what_replies_to_nothing_that_was_asked_is_not_read(replies: dict[str, Message]):
    link, other = FakeSuperLink(replies), reply_to("x", 1, size=4)
    link.replies["a"] = other
    assert places(over(link).replies(WAITING)) == {"b": 1, "c": 2}
    assert other.object_id not in link.read


def status_error() -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "https://nowhere")
    return httpx.HTTPStatusError("refused", request=request, response=httpx.Response(500))


def test_a_question_that_is_refused_is_asked_for_each_node_by_itself(replies: dict[str, Message]):
    """As if node a had sent what the SuperLink breaks at."""
    link = FakeSuperLink(replies)
    pull = link.PullMessages

    def refuse(request: PullAppMessagesRequest) -> PullAppMessagesResponse:
        if "a" in request.message_ids:
            link.asked.append(list(request.message_ids))
            raise status_error()
        return pull(request)

    link.PullMessages = refuse  # type: ignore[method-assign]
    box = over(link)
    assert places(box.replies(WAITING)) == {"b": 1, "c": 2}
    assert places(box.replies({"a": WAITING["a"]})) == {}
    assert [sorted(ids) for ids in link.asked] == [["a", "b", "c"], ["a"], ["b"], ["c"], ["a"]]


def test_a_superlink_that_is_away_is_asked_at_the_next_look(replies: dict[str, Message]):
    link = FakeSuperLink(replies)
    pull, line = link.PullMessages, [httpx.ConnectError("away")]

    def away_at_first(request: PullAppMessagesRequest) -> PullAppMessagesResponse:
        if line:
            raise line.pop()
        return pull(request)

    link.PullMessages = away_at_first  # type: ignore[method-assign]
    box = over(link)
    assert places(box.replies(WAITING)) == {}
    assert places(box.replies(WAITING)) == {"a": 0, "b": 1, "c": 2}
    assert len(link.asked) == 1
