"""How much each node has pushed in reply to each question, and what of it is too much.

Flower registers as many objects as a message names, in one transaction during which nobody else
is served, and stores as many bytes as are sent. A push beyond what a reply can be is refused and
noted as an offence of its sender, once for each question; of that question no more is taken.
"""

import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from fedse.flower.messages.bounds import ReplyBounds
from fedse.flower.messages.offences import note_offence

# A SuperNode tries again while the SuperLink is busy; a round is over before it does so this often.
TRIES = 64
# Of the questions and uploads that are remembered, the oldest is forgotten beyond this many.
REMEMBERED = 4096

# In place of a question's id, of which none has a space.
BEFORE_RESTART = "begun earlier by"

TOO_MANY_OBJECTS = "its reply names more objects than a reply has"
TOO_MANY_BYTES = "its reply has more bytes than a reply can have"
TOO_MANY_TRIES = "it began its reply too often"
OTHER_ROOT = "its reply is registered under another name than its own"
CLAIMED = "its reply claims an object of a question and gives it other parts"

Push = Callable[..., Any]


class Upload(NamedTuple):
    """A session of Flower's in which one node sends the objects of one reply."""

    node: int
    question: str


class ReplyWatch:
    """Wraps the handlers by which questions and replies come in; they run in many threads."""

    def __init__(self, bounds: ReplyBounds, offences: Path) -> None:
        self._bounds, self._offences, self._lock = bounds, offences, threading.Lock()
        self._uploads: dict[str, Upload] = {}
        self._tries: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._struck: dict[str, str] = {}
        self._parts: dict[str, frozenset[str]] = {}
        """By object of a question, the objects it consists of."""

    def questions(self, push: Push) -> Push:
        """`push` of the server's own messages, whose objects no reply can claim afterwards.

        Whoever registers an object first decides what it consists of, and everybody who was asked
        knows those of a question. When all have it, Flower forgets them until it is asked again.
        """

        def push_kept(request: Any, *args: Any, **options: Any) -> Any:
            with self._lock:
                for tree in request.message_object_trees:
                    for one in _objects_of(tree):
                        _keep(self._parts, one.object_id, _parts_of(one))
            return push(request, *args, **options)

        return push_kept

    def messages(self, push: Push) -> Push:
        """`push` of a reply that the node itself sends, if its tree is that of a reply."""

        def push_small(request: Any, state: Any) -> Any:
            metadata = request.messages_list[0].metadata
            question = metadata.reply_to_message_id
            problem = self._tree_problem(request.message_object_trees[0], metadata.message_id)
            # The sender could else push what is remembered out, or fill the file, with questions
            # that never were.
            if exists := state.get_valid_message_ins(question) is not None:
                problem = problem or self._try_problem(question)
            if problem:
                if exists:
                    self._strike(question, problem)
                raise refusal(problem)
            answer = push(request=request, state=state)
            if exists:
                with self._lock:
                    _keep(self._uploads, answer.session_id, Upload(request.node.node_id, question))
            return answer

        return push_small

    def objects(self, push: Push) -> Push:
        """`push` of an object, as long as the reply it belongs to is not too large."""

        def push_counted(request: Any, state: Any) -> Any:
            node = request.node.node_id
            with self._lock:
                known = request.session_id in self._uploads
                # Those that began before the SuperLink was restarted are counted together, by node:
                # the name of a session can be invented.
                unknown = Upload(node, f"{BEFORE_RESTART} {node}")
                upload = self._uploads.get(request.session_id, unknown)
                own = upload.node == node and request.session_id
                size = self._bytes.get(upload.question, 0) + len(request.object_content)
                if own:
                    _keep(self._bytes, upload.question, size)
            if not own:
                raise refusal("the object belongs to no reply of the node that pushes it")
            problem = TOO_MANY_BYTES if size > self._bounds.bytes else ""
            if problem := self._struck.get(upload.question, problem):
                if known:
                    self._strike(upload.question, problem)
                raise refusal(problem)
            return push(request=request, state=state)

        return push_counted

    def _tree_problem(self, tree: Any, message: str) -> str:
        most = self._bounds.objects
        if sum(1 for _ in islice(_objects_of(tree), most + 1)) > most:
            return TOO_MANY_OBJECTS
        if tree.object_id != message:
            return OTHER_ROOT
        with self._lock:
            own = all(
                self._parts.get(o.object_id) in (None, _parts_of(o)) for o in _objects_of(tree)
            )
        return "" if own else CLAIMED

    def _try_problem(self, question: str) -> str:
        with self._lock:
            _keep(self._tries, question, self._tries.get(question, 0) + 1)
            often = TOO_MANY_TRIES if self._tries[question] > TRIES else ""
            return self._struck.get(question, often)

    def _strike(self, question: str, problem: str) -> None:
        with self._lock:
            if question in self._struck:
                return
            _keep(self._struck, question, problem)
            note_offence(self._offences, question, problem)


def refusal(problem: str) -> Exception:
    """What makes Flower answer 400."""
    from flwr.supercore.error import ApiErrorCode, FlowerError

    refused: Exception = FlowerError(ApiErrorCode.INVALID_PROTOBUF_PAYLOAD, problem)
    return refused


def _objects_of(tree: Any) -> Any:
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
