"""The door of Flower's SuperLink: it takes from a node its own replies, of a reply's size.

Flower checks that a push is signed by the node it names, and not that the message in it is that
node's, or a reply at all. It registers as many objects as a message names, in one transaction
during which nobody else is served, and stores as many bytes as are sent. The door refuses such a
push and notes it as an offence of its sender, once for each question; of that question no more is
taken. It also notes when each node was heard.

It is an ASGI middleware, the innermost of Flower's app: there a request is read and its signature
checked. Everything in it happens in the event loop, so nothing needs a lock.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from fedse.federation.heard import SILENT_SECONDS, HeardNode, is_silent, read_heard, write_heard
from fedse.flower.messages.bounds import ReplyBounds
from fedse.flower.messages.offences import note_offence
from fedse.types import Clock

FLEET = "/v1/fleet/"
ENTER, LEAVE = f"{FLEET}activate-node", f"{FLEET}deactivate-node"
HEARTBEAT, PULL = f"{FLEET}send-node-heartbeat", f"{FLEET}pull-messages"
PUSH, PUSH_OBJECT = f"{FLEET}push-messages", f"{FLEET}push-object"
# By which the server's app asks, and a node is removed; only programs of the server's own machine
# reach them.
ASK, REMOVE = "/v1/runtime/push-messages", "/v1/control/unregister-node"

# A SuperNode tries again while the SuperLink is busy; a round is over before it does so this often.
TRIES = 64
# Of the questions and uploads that are remembered, the oldest is forgotten beyond this many.
REMEMBERED = 4096
# In place of a question's id, of which none has a space.
BEFORE_RESTART = "begun earlier by"
WRITE_SECONDS = 1.0

UNREAD = "Flower has not read the request"
NO_QUESTION = "the message replies to a request that is not open"
OF_ANOTHER = "the message replies to a request sent to another node"
NO_UPLOAD = "the object belongs to no reply of the node that pushes it"
TOO_MANY_OBJECTS = "its reply names more objects than a reply has"
TOO_MANY_BYTES = "its reply has more bytes than a reply can have"
TOO_MANY_TRIES = "it began its reply too often"
TOO_MANY_STRAYS = "it replied too often to requests that are not open, or not its own"
OTHER_ROOT = "its reply is registered under another name than its own"
CLAIMED = "its reply claims an object of a question and gives it other parts"

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class Door:
    """Lets a request through to Flower, or refuses it; what Flower answered is noted."""

    def __init__(self, app: App, replies: "Replies", heard: "HeardNodes") -> None:
        self._app, self._replies, self._heard = app, replies, heard

    async def __call__(self, scope: dict[str, Any], receive: object, send: object) -> None:
        path, state = scope.get("path", ""), scope.setdefault("state", {})
        request = state.get("protobuf_request")
        if problem := await self._problem(path, request, scope):
            from flwr.supercore.error import ApiErrorCode, FlowerError

            raise FlowerError(ApiErrorCode.INVALID_PROTOBUF_PAYLOAD, problem)  # answered with 400
        await self._app(scope, receive, send)
        answer = state.get("protobuf_response")
        if answer is not None and path.startswith(FLEET):
            self._replies.note(path, request, answer)
            self._heard.note(path, request, answer)

    async def _problem(self, path: str, request: Any, scope: Mapping[str, Any]) -> str:
        """Why a request is refused; empty if it is not."""
        if path not in (ASK, PUSH, PUSH_OBJECT):
            return ""
        if request is None:
            return UNREAD
        if path == ASK:
            return self._replies.ask(request)
        if path == PUSH_OBJECT:
            return self._replies.object_problem(request)
        if problem := form_problem(request):
            return problem
        find = scope["app"].state.linkstate_factory.state().get_valid_message_ins
        name = request.messages_list[0].metadata.reply_to_message_id
        return self._replies.problem(request, await asyncio.to_thread(find, name))


def form_problem(request: Any) -> str:
    """Why a push is not one reply of the node that pushes it; empty if it is."""
    if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
        return "a push holds one message"
    metadata = request.messages_list[0].metadata
    if metadata.src_node_id != request.node.node_id:
        return "the message is not from the node that pushes it"
    return "" if metadata.reply_to_message_id else "the message is not a reply"


class Upload(NamedTuple):
    """A session of Flower's in which one node sends the objects of one reply."""

    node: int
    question: str


class Replies:
    """How much each node has pushed in reply to each question, and what of it is too much."""

    def __init__(self, bounds: ReplyBounds, offences: Path) -> None:
        self._bounds, self._offences = bounds, offences
        self._uploads: dict[str, Upload] = {}
        self._tries: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._struck: dict[str, str] = {}
        self._given: dict[int, str] = {}
        """By node, the question it was given and has not begun to answer."""
        self._strays: dict[int, int] = {}
        """By node, how often it replied to what it was not asked, since it last had a question."""
        self._parts: dict[str, frozenset[str]] = {}
        """By object of a question, the objects it consists of."""

    def ask(self, request: Any) -> str:
        """No reply can claim the objects of these questions from now on; never a problem.

        Whoever registers an object first decides what it consists of, and everybody who was asked
        knows those of a question. When all have it, Flower forgets them until it is asked again.
        """
        for tree in request.message_object_trees:
            for one in _objects_of(tree):
                _keep(self._parts, one.object_id, _parts_of(one))
        return ""

    def note(self, path: str, request: Any, answer: Any) -> None:
        """What Flower gave to a node, or took from it."""
        node = request.node.node_id if path in (PULL, PUSH) else 0
        if path == PULL and answer.messages_list:
            given = self._given[node] = answer.messages_list[0].metadata.message_id
            if self._strays.pop(node, 0) > TRIES:
                self._strike(given, TOO_MANY_STRAYS)
        elif path == PUSH:
            question = request.messages_list[0].metadata.reply_to_message_id
            _keep(self._uploads, answer.session_id, Upload(node, question))
            if self._given.get(node) == question:
                del self._given[node]

    def problem(self, request: Any, question: Mapping[str, Any] | None) -> str:
        """Why this reply to `question` is not taken; None = there is no such question."""
        node, metadata = request.node.node_id, request.messages_list[0].metadata
        # The database keeps numbers with a sign.
        if question is None or question["dst_node_id"] % 2**64 != node:
            self._stray(node)
            return OF_ANOTHER if question else NO_QUESTION
        name, tree = metadata.reply_to_message_id, request.message_object_trees[0]
        if problem := self._tree_problem(tree, metadata.message_id) or self._try_problem(name):
            self._strike(name, problem)
        return problem

    def object_problem(self, request: Any) -> str:
        """Why an object is not taken, by what the reply it belongs to has sent so far."""
        node = request.node.node_id
        # Those that began before the SuperLink was restarted are counted together, by node: the
        # name of a session can be invented.
        unknown = Upload(node, f"{BEFORE_RESTART} {node}")
        upload = self._uploads.get(request.session_id, unknown)
        if upload.node != node or not request.session_id:
            return NO_UPLOAD
        size = self._bytes.get(upload.question, 0) + len(request.object_content)
        _keep(self._bytes, upload.question, size)
        problem = TOO_MANY_BYTES if size > self._bounds.bytes else ""
        problem = self._struck.get(upload.question, problem)
        if problem and upload is not unknown:
            self._strike(upload.question, problem)
        return problem

    def _tree_problem(self, tree: Any, message: str) -> str:
        most = self._bounds.objects
        if sum(1 for _ in islice(_objects_of(tree), most + 1)) > most:
            return TOO_MANY_OBJECTS
        if tree.object_id != message:
            return OTHER_ROOT
        own = all(self._parts.get(o.object_id) in (None, _parts_of(o)) for o in _objects_of(tree))
        return "" if own else CLAIMED

    def _stray(self, node: int) -> None:
        """It is counted, and too many are an offence in the question the node has, or gets next.

        A late reply is one too. Noted under the names it invents, they could fill the file.
        """
        count = self._strays[node] = self._strays.get(node, 0) + 1
        if count > TRIES and (given := self._given.get(node)):
            self._strays[node] = 0
            self._strike(given, TOO_MANY_STRAYS)

    def _try_problem(self, question: str) -> str:
        _keep(self._tries, question, self._tries.get(question, 0) + 1)
        often = TOO_MANY_TRIES if self._tries[question] > TRIES else ""
        return self._struck.get(question, often)

    def _strike(self, question: str, problem: str) -> None:
        if question not in self._struck:
            _keep(self._struck, question, problem)
            note_offence(self._offences, question, problem)


class HeardNodes:
    """When each node was last heard, and what it took and sent, kept in `file` if there is one.

    Flower itself believes a killed node online for up to a minute.
    """

    def __init__(
        self, file: Path | None, *, clock: Clock, ticks: Clock, silent: float = SILENT_SECONDS
    ) -> None:
        self._file, self._clock, self._ticks, self._silent = file, clock, ticks, silent
        # Of an earlier SuperLink, which may have been restarted while its nodes went on.
        self._heard, self._changed = read_heard(file) if file else {}, False

    def note(self, path: str, request: Any, answer: Any) -> None:
        """A node's request was answered; one that comes learns its number by that."""
        who = (getattr(request, "node", request), answer)
        node = next(one.node_id for one in who if hasattr(one, "node_id"))
        now, tick = self._clock(), self._ticks()
        before = self._heard.get(node)
        if before is None or before.left or is_silent(before, tick):
            kept = before or HeardNode(since=now, heard=now, tick=tick)
            before = kept.model_copy(update={"since": now, "left": False})
        update = {"heard": now, "tick": tick, "silent": self._silent}
        update |= _change(before, path, answer, now)
        self._heard[node], self._changed = before.model_copy(update=update), True

    def forget(self, node: int) -> bool:
        """Nothing is known of the node; whether something was."""
        return self._heard.pop(node, None) is not None

    def write(self) -> None:
        """The file says what was heard so far."""
        changed, self._changed = self._changed, False
        if changed and self._file:
            write_heard(self._file, self._heard.copy())

    def keep_writing(self) -> None:
        """From now on the file is at most a second behind."""

        def keep() -> None:
            while True:
                time.sleep(WRITE_SECONDS)
                self.write()

        threading.Thread(target=keep, daemon=True).start()


def _change(node: HeardNode, path: str, answer: Any, now: float) -> dict[str, Any]:
    """What a request means beyond that its node was heard."""
    if path == ENTER:
        return {"since": now, "asked": None, "sent": None, "round": None}
    if path == LEAVE:
        return {"left": True, "asked": None}
    if path == PUSH:
        return {"asked": None, "sent": now}
    if path == PULL and answer.messages_list:
        group = answer.messages_list[0].metadata.group_id
        return {"asked": now, "round": int(group) if group.isdecimal() else None}
    if path == PULL and node.asked is not None:
        # A node that looks for a question has none, and did not answer the one that it had.
        return {"asked": None, "sent": None, "round": None}
    return {}


def _objects_of(tree: Any) -> Iterator[Any]:
    yield tree
    for child in tree.children:
        yield from _objects_of(child)


def _parts_of(tree: Any) -> frozenset[str]:
    return frozenset(child.object_id for child in tree.children)


def _keep(known: dict[str, Any], key: str, value: Any) -> None:
    """`known` has it, and not more than REMEMBERED others."""
    known[key] = value
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
