"""A site can neither stop the SuperLink with one request nor fill its disk with one reply."""

import json
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import needs

needs("flwr")

from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import Metadata, ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from flwr.supercore.error import FlowerError
from flwr.superlink.servicer.fleet import fleet_handlers

from fedse.flower.messages.bounds import OBJECT_BYTES, SLACK_BYTES, SLACK_OBJECTS, reply_bounds
from fedse.flower.patches import reply_watch
from fedse.flower.patches.reply_watch import (
    CLAIMED,
    OTHER_ROOT,
    REMEMBERED,
    TOO_MANY_BYTES,
    TOO_MANY_OBJECTS,
    TOO_MANY_TRIES,
    TRIES,
    ReplyWatch,
)
from fedse.flower.patches.superlink_guard import (
    ASK_HANDLERS,
    bound_pushes,
    guard_pushes,
    only_own_replies,
)

ADAPTER = 4 * OBJECT_BYTES
ROGUE, OTHER = 7, 8
QUESTION = "asked"


class Questions:
    """A SuperLink's state that knows which question went to which node."""

    def get_valid_message_ins(self, message_id: str) -> dict[str, int] | None:
        return {QUESTION: {"dst_node_id": ROGUE}, "others": {"dst_node_id": OTHER}}.get(message_id)


class Session(NamedTuple):
    session_id: str


class Link:
    """The two guarded handlers before a Flower that takes everything."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "offences.jsonl"
        self.taken: list[object] = []
        watch = ReplyWatch(reply_bounds(ADAPTER), self.file)
        self._messages = only_own_replies(watch.messages(self._take))
        self._objects = watch.objects(self._take)
        self._questions = watch.questions(self._ask)

    def _ask(self, request: object, state: object, task: object) -> str:
        return "asked"

    def ask(self, *trees: ObjectTree) -> str:
        request = PushAppMessagesRequest(message_object_trees=trees)
        return self._questions(request, Questions(), task=None)

    def _take(self, request: object, state: object) -> Session:
        self.taken.append(request)
        return Session(f"session-{len(self.taken)}")

    def push(self, tree: ObjectTree, *, question: str = QUESTION, node: int = ROGUE) -> str:
        metadata = Metadata(message_id="m", src_node_id=node, reply_to_message_id=question)
        request = PushMessagesRequest(
            node=Node(node_id=node),
            messages_list=[ProtoMessage(metadata=metadata)],
            message_object_trees=[tree],
        )
        return self._messages(request=request, state=Questions()).session_id

    def send(self, session: str, size: int, *, node: int = ROGUE) -> None:
        request = PushObjectRequest(
            node=Node(node_id=node), session_id=session, object_content=bytes(size)
        )
        self._objects(request=request, state=Questions())

    @property
    def offences(self) -> list[dict[str, str]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [json.loads(line) for line in lines]


@pytest.fixture
def link(tmp_path: Path) -> Link:
    return Link(tmp_path)


def tree(objects: int, root: str = "m") -> ObjectTree:
    children = [ObjectTree(object_id=str(i)) for i in range(objects - 1)]
    return ObjectTree(object_id=root, children=children)


def chain(objects: int) -> ObjectTree:
    grown = ObjectTree(object_id="leaf")
    for i in range(objects - 2):
        grown = ObjectTree(object_id=str(i), children=[grown])
    return ObjectTree(object_id="m", children=[grown])


MOST = SLACK_OBJECTS + ADAPTER // OBJECT_BYTES


def test_a_reply_of_a_replys_size_is_taken(link: Link):
    session = link.push(tree(MOST))
    link.send(session, ADAPTER)
    link.send(session, SLACK_BYTES)
    assert (len(link.taken), link.offences) == (3, [])


@pytest.mark.parametrize("named", [tree(60_000), tree(MOST + 1), chain(MOST + 1)])
def test_one_that_names_too_many_objects_never_reaches_flower_and_is_an_offence(
    link: Link, named: ObjectTree
):
    for _ in range(3):
        with pytest.raises(FlowerError, match=TOO_MANY_OBJECTS):
            link.push(named)
    assert link.taken == []
    assert link.offences == [{"question": QUESTION, "what": TOO_MANY_OBJECTS}], "noted once"
    with pytest.raises(FlowerError, match=TOO_MANY_OBJECTS):
        link.push(tree(3))
    assert link.taken == [], "of that question no more is taken"


def test_a_reply_is_registered_under_its_own_name(link: Link):
    with pytest.raises(FlowerError, match=OTHER_ROOT):
        link.push(tree(3, root="another"))
    assert (link.taken, len(link.offences)) == ([], 1)


def test_the_first_byte_too_many_ends_a_reply(link: Link):
    session = link.push(tree(MOST))
    for _ in range((ADAPTER + SLACK_BYTES) // OBJECT_BYTES):
        link.send(session, OBJECT_BYTES)
    with pytest.raises(FlowerError, match=TOO_MANY_BYTES):
        link.send(session, 1)
    assert link.offences == [{"question": QUESTION, "what": TOO_MANY_BYTES}]
    with pytest.raises(FlowerError, match=TOO_MANY_BYTES):
        link.send(session, 1)
    assert len(link.offences) == 1


def test_a_reply_that_is_begun_again_does_not_have_its_bytes_again(link: Link):
    first, second = link.push(tree(MOST)), link.push(tree(MOST))
    link.send(first, ADAPTER + SLACK_BYTES)
    with pytest.raises(FlowerError, match=TOO_MANY_BYTES):
        link.send(second, 1)


def test_nobody_begins_for_ever(link: Link):
    for _ in range(TRIES):
        link.push(tree(3))
    with pytest.raises(FlowerError, match=TOO_MANY_TRIES):
        link.push(tree(3))
    assert (len(link.taken), len(link.offences)) == (TRIES, 1)


def test_no_node_is_blamed_for_anothers_doing(link: Link):
    """Nor can a node fill the file with questions that never were."""
    for question in ("others", "never was"):
        with pytest.raises(FlowerError):
            link.push(tree(60_000), question=question)
    session = link.push(tree(3))
    with pytest.raises(FlowerError, match="no reply of the node"):
        link.send(session, 1, node=OTHER)
    with pytest.raises(FlowerError, match="no reply of the node"):
        link.send("", 1)
    assert (len(link.taken), link.offences) == (1, [])


def test_an_upload_that_began_before_a_restart_goes_on_within_the_same_bound(link: Link):
    link.send("from before", ADAPTER + SLACK_BYTES)
    with pytest.raises(FlowerError, match=TOO_MANY_BYTES):
        link.send("from before", 1)
    assert (len(link.taken), link.offences) == (1, [])


def test_no_count_is_pushed_out_by_sessions_and_questions_that_never_were(link: Link):
    session = link.push(tree(MOST))
    link.send(session, ADAPTER + SLACK_BYTES)
    for _ in range(TRIES - 1):
        link.push(tree(3))
    for i in range(REMEMBERED):
        link.send(f"never was {i}", 0)
        link.push(tree(3), question=f"never was {i}")
    with pytest.raises(FlowerError, match=TOO_MANY_BYTES):
        link.send(session, 1)
    with pytest.raises(FlowerError, match=TOO_MANY_BYTES):
        link.push(tree(3))
    assert link.offences == [{"question": QUESTION, "what": TOO_MANY_BYTES}]


def test_the_tries_at_a_question_stay_counted_among_questions_that_never_were(link: Link):
    for _ in range(TRIES):
        link.push(tree(3))
    for i in range(REMEMBERED):
        link.push(tree(3), question=f"never was {i}")
    with pytest.raises(FlowerError, match=TOO_MANY_TRIES):
        link.push(tree(3))


def test_sessions_of_before_a_restart_have_one_bound_together(link: Link):
    link.send("from before", ADAPTER)
    link.send("from before", SLACK_BYTES, node=OTHER)
    link.send("also from before", SLACK_BYTES)
    with pytest.raises(FlowerError, match=TOO_MANY_BYTES):
        link.send("and another", 1)


def test_what_another_node_sends_in_a_session_does_not_count(link: Link):
    session = link.push(tree(MOST))
    with pytest.raises(FlowerError, match="no reply of the node"):
        link.send(session, ADAPTER, node=OTHER)
    link.send(session, ADAPTER + SLACK_BYTES)
    assert link.offences == []


def test_the_objects_of_a_question_cannot_be_claimed_by_a_reply(link: Link):
    """But a site may send back what it got: an adapter that it did not change."""
    chunk = ObjectTree(object_id="chunk")
    adapter = ObjectTree(object_id="adapter", children=[chunk])
    assert link.ask(ObjectTree(object_id="question", children=[adapter])) == "asked"
    link.push(ObjectTree(object_id="m", children=[adapter]))
    for claimed in (
        ObjectTree(object_id="adapter"),
        ObjectTree(object_id="chunk", children=[ObjectTree(object_id="other")]),
        ObjectTree(object_id="question"),
    ):
        with pytest.raises(FlowerError, match=CLAIMED):
            link.push(ObjectTree(object_id="m", children=[claimed]))
    assert len(link.taken) == 1
    assert link.offences == [{"question": QUESTION, "what": CLAIMED}]


def test_what_is_remembered_does_not_grow(link: Link):
    known: dict[str, int] = {}
    for i in range(REMEMBERED + 3):
        reply_watch._keep(known, str(i), i)
    assert (len(known), next(iter(known))) == (REMEMBERED, "3")


def test_flower_takes_replies_by_the_names_that_are_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asking = import_module(ASK_HANDLERS)
    for owner, name in (
        (fleet_handlers, "push_messages"),
        (fleet_handlers, "push_object"),
        (asking, "push_messages"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    bound_pushes(ReplyWatch(reply_bounds(ADAPTER), tmp_path / "offences.jsonl"))
    guard_pushes()
    routes = import_module("flwr.superlink.routers.fleet.router")
    assert "push_messages" in routes.fleet_push_messages.__code__.co_names
    assert "push_object" in routes.fleet_push_object.__code__.co_names
    assert fleet_handlers.push_messages.__name__ == "push_own"
    assert fleet_handlers.push_object.__name__ == "push_counted"
    assert import_module("flwr.superlink.main").runtime_handlers is asking
    assert asking.push_messages.__name__ == "push_kept"
