"""A site can neither stop the SuperLink with one request nor fill its disk with one reply."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.needs import needs

needs("flwr")

from flwr.proto import fleet_pb2 as fleet
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import Metadata, ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from flwr.supercore.error import FlowerError

from fedse.federation.heard import read_heard
from fedse.flower.messages.bounds import OBJECT_BYTES, SLACK_BYTES, SLACK_OBJECTS, reply_bounds
from fedse.flower.patches import door
from fedse.flower.patches.door import ASK, PULL, PUSH, PUSH_OBJECT, REMEMBERED, TRIES, Door

ADAPTER = 4 * OBJECT_BYTES
ROGUE, OTHER = 7, 8
QUESTION = "asked"


class Questions:
    """A SuperLink's state that knows which question went to which node."""

    def get_valid_message_ins(self, message_id: str) -> dict[str, int] | None:
        return {QUESTION: {"dst_node_id": ROGUE}, "others": {"dst_node_id": OTHER}}.get(message_id)


class Link:
    """The door before a Flower that takes everything."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "offences.jsonl"
        self.taken: list[object] = []
        self.heard = door.HeardNodes(folder / "heard.json", clock=lambda: 1.0, ticks=lambda: 1.0)
        self._door = Door(self._take, door.Replies(reply_bounds(ADAPTER), self.file), self.heard)
        self._loop = asyncio.new_event_loop()
        self._answer: Any = None

    def close(self) -> None:
        self._loop.close()

    async def _take(self, scope: Any, receive: object, send: object) -> None:
        if isinstance(self._answer, Exception):
            raise self._answer
        self.taken.append(scope["state"]["protobuf_request"])
        scope["state"]["protobuf_response"] = self._answer

    def asks(self, path: str, request: object, answer: object) -> None:
        """The request, as Flower has read it, comes to the door and is answered so behind it."""
        self._answer, state = answer, {"protobuf_request": request}
        link = SimpleNamespace(linkstate_factory=SimpleNamespace(state=Questions))
        scope = {"path": path, "state": state, "app": SimpleNamespace(state=link)}
        self._loop.run_until_complete(self._door(scope, None, None))

    def ask(self, *trees: ObjectTree) -> None:
        self.asks(ASK, PushAppMessagesRequest(message_object_trees=trees), "asked")
        assert self.taken.pop()

    def give(self, question: str, node: int = ROGUE) -> None:
        given = ProtoMessage(metadata=Metadata(message_id=question))
        request = fleet.PullMessagesRequest(node=Node(node_id=node))
        self.asks(PULL, request, fleet.PullMessagesResponse(messages_list=[given]))
        assert self.taken.pop() is request

    def push(self, tree: ObjectTree, *, question: str = QUESTION, node: int = ROGUE) -> str:
        metadata = Metadata(message_id="m", src_node_id=node, reply_to_message_id=question)
        request = fleet.PushMessagesRequest(
            node=Node(node_id=node),
            messages_list=[ProtoMessage(metadata=metadata)],
            message_object_trees=[tree],
        )
        session = f"session-{len(self.taken) + 1}"
        self.asks(PUSH, request, fleet.PushMessagesResponse(session_id=session))
        return session

    def send(self, session: str, size: int, *, node: int = ROGUE) -> None:
        request = PushObjectRequest(
            node=Node(node_id=node), session_id=session, object_content=bytes(size)
        )
        self.asks(PUSH_OBJECT, request, "stored")

    @property
    def offences(self) -> list[dict[str, str]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [json.loads(line) for line in lines]


def why(refused: Callable[[], object]) -> str:
    """The reason for which this is refused."""
    with pytest.raises(FlowerError) as error:
        refused()
    return error.value.message


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    with closing(Link(tmp_path)) as made:
        yield made


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
        assert why(lambda: link.push(named)) == door.TOO_MANY_OBJECTS
    assert link.taken == []
    assert link.offences == [{"question": QUESTION, "what": door.TOO_MANY_OBJECTS}], "noted once"
    assert why(lambda: link.push(tree(3))) == door.TOO_MANY_OBJECTS
    assert link.taken == [], "of that question no more is taken"


def test_a_reply_is_registered_under_its_own_name(link: Link):
    assert why(lambda: link.push(tree(3, root="another"))) == door.OTHER_ROOT
    assert (link.taken, len(link.offences)) == ([], 1)


def test_the_first_byte_too_many_ends_a_reply(link: Link):
    session = link.push(tree(MOST))
    for _ in range((ADAPTER + SLACK_BYTES) // OBJECT_BYTES):
        link.send(session, OBJECT_BYTES)
    assert why(lambda: link.send(session, 1)) == door.TOO_MANY_BYTES
    assert link.offences == [{"question": QUESTION, "what": door.TOO_MANY_BYTES}]
    assert why(lambda: link.send(session, 1)) == door.TOO_MANY_BYTES
    assert len(link.offences) == 1


def test_a_reply_that_is_begun_again_does_not_have_its_bytes_again(link: Link):
    first, second = link.push(tree(MOST)), link.push(tree(MOST))
    link.send(first, ADAPTER + SLACK_BYTES)
    assert why(lambda: link.send(second, 1)) == door.TOO_MANY_BYTES


def test_nobody_begins_for_ever(link: Link):
    for _ in range(TRIES):
        link.push(tree(3))
    assert why(lambda: link.push(tree(3))) == door.TOO_MANY_TRIES
    assert (len(link.taken), len(link.offences)) == (TRIES, 1)


def test_no_node_is_blamed_for_anothers_doing(link: Link):
    """Nor can a node fill the file with questions that never were."""
    assert why(lambda: link.push(tree(60_000), question="others")) == door.OF_ANOTHER
    assert why(lambda: link.push(tree(60_000), question="never was")) == door.NO_QUESTION
    session = link.push(tree(3))
    assert why(lambda: link.send(session, 1, node=OTHER)) == door.NO_UPLOAD
    assert why(lambda: link.send("", 1)) == door.NO_UPLOAD
    assert (len(link.taken), link.offences) == (1, [])


def test_an_upload_that_began_before_a_restart_goes_on_within_the_same_bound(link: Link):
    link.send("from before", ADAPTER + SLACK_BYTES)
    assert why(lambda: link.send("from before", 1)) == door.TOO_MANY_BYTES
    assert (len(link.taken), link.offences) == (1, [])


def stray(link: Link, question: str) -> None:
    assert why(lambda: link.push(tree(3), question=question)) == door.NO_QUESTION


STRAYS = {"question": QUESTION, "what": door.TOO_MANY_STRAYS}


def test_replies_to_questions_that_never_were_count_against_the_one_the_node_has(link: Link):
    link.give(QUESTION)
    for i in range(TRIES):
        stray(link, f"never was {i}")
    assert link.offences == []
    stray(link, "and another")
    assert link.offences == [STRAYS]
    assert why(lambda: link.push(tree(3))) == door.TOO_MANY_STRAYS
    assert link.taken == []
    link.give("the next")
    assert link.offences == [STRAYS], "they count once"


def test_a_node_that_has_no_question_pays_with_the_next(link: Link):
    """Whether it was never asked, or has answered."""
    link.give("others", OTHER)
    link.push(tree(3), question="others", node=OTHER)
    for i in range(TRIES):
        for node in (ROGUE, OTHER):
            assert why(partial(link.push, tree(3), question=f"{i}", node=node)) == door.NO_QUESTION
    assert why(lambda: link.push(tree(3), question="others")) == door.OF_ANOTHER, "of ROGUE"
    assert link.offences == []
    link.give(QUESTION)
    assert link.offences == [STRAYS]
    link.give("not too many", OTHER)
    assert link.offences == [STRAYS], "each node has a count of its own"


def test_late_replies_never_add_up_over_rounds(link: Link):
    for i in range(3 * TRIES):
        link.give(f"round {i}")
        stray(link, f"late {i}")
    assert link.offences == []


def test_no_count_is_pushed_out_by_sessions_and_questions_that_never_were(link: Link):
    session = link.push(tree(MOST))
    link.send(session, ADAPTER + SLACK_BYTES)
    for _ in range(TRIES - 1):
        link.push(tree(3))
    for i in range(REMEMBERED):
        link.send(f"never was {i}", 0)
        stray(link, f"never was {i}")
    assert why(lambda: link.send(session, 1)) == door.TOO_MANY_BYTES
    assert why(lambda: link.push(tree(3))) == door.TOO_MANY_BYTES
    assert link.offences == [{"question": QUESTION, "what": door.TOO_MANY_BYTES}]


def test_the_tries_at_a_question_stay_counted_among_questions_that_never_were(link: Link):
    for _ in range(TRIES):
        link.push(tree(3))
    for i in range(REMEMBERED):
        stray(link, f"never was {i}")
    assert why(lambda: link.push(tree(3))) == door.TOO_MANY_TRIES


def test_sessions_of_before_a_restart_have_one_bound_together(link: Link):
    link.send("from before", ADAPTER)
    link.send("from before", SLACK_BYTES, node=OTHER)
    link.send("also from before", SLACK_BYTES)
    assert why(lambda: link.send("and another", 1)) == door.TOO_MANY_BYTES


def test_what_another_node_sends_in_a_session_does_not_count(link: Link):
    session = link.push(tree(MOST))
    assert why(lambda: link.send(session, ADAPTER, node=OTHER)) == door.NO_UPLOAD
    link.send(session, ADAPTER + SLACK_BYTES)
    assert link.offences == []


def test_the_objects_of_a_question_cannot_be_claimed_by_a_reply(link: Link):
    """But a site may send back what it got: an adapter that it did not change."""
    chunk = ObjectTree(object_id="chunk")
    adapter = ObjectTree(object_id="adapter", children=[chunk])
    link.ask(ObjectTree(object_id="question", children=[adapter]))
    link.push(ObjectTree(object_id="m", children=[adapter]))
    other_parts = ObjectTree(object_id="chunk", children=[ObjectTree(object_id="other")])
    for claimed in (ObjectTree(object_id="adapter"), other_parts, ObjectTree(object_id="question")):
        reply = ObjectTree(object_id="m", children=[claimed])
        assert why(partial(link.push, reply)) == door.CLAIMED
    assert len(link.taken) == 1
    assert link.offences == [{"question": QUESTION, "what": door.CLAIMED}]


def test_what_is_remembered_does_not_grow(link: Link):
    known: dict[str, int] = {}
    for i in range(REMEMBERED + 3):
        door._keep(known, str(i), i)
    assert (len(known), next(iter(known))) == (REMEMBERED, "3")


@pytest.mark.parametrize("path", [ASK, PUSH, PUSH_OBJECT])
def test_what_flower_has_not_read_is_refused(link: Link, path: str):
    assert why(lambda: link.asks(path, None, "taken")) == door.UNREAD
    assert link.taken == []


def test_who_was_refused_was_not_heard(link: Link):
    """By the door or by Flower."""
    for path, request in (
        (PUSH, fleet.PushMessagesRequest(node=Node(node_id=ROGUE))),
        (PULL, fleet.PullMessagesRequest(node=Node(node_id=OTHER))),
    ):
        with pytest.raises((FlowerError, PermissionError)):
            link.asks(path, request, PermissionError("401"))
    link.heard.write()
    assert read_heard(link.file.parent / "heard.json") == {}
    link.give(QUESTION)
    link.heard.write()
    assert set(read_heard(link.file.parent / "heard.json")) == {ROGUE}
