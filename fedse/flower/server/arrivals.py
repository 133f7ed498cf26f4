"""Which replies have come: one request asks for all of them, and each is then read by itself.

Flower's Grid reads, one after another, all the replies that it asks for. So that one of them cannot
hold up the others, it would have to be asked for each alone, and the SuperLink needs ten
milliseconds for each request that finds nothing.
"""

from collections.abc import Callable, Collection, Sequence
from copy import copy
from functools import partial
from typing import Any

from flwr.app import Message
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.serverapp import Grid
from flwr.superlink.grid.http_grid import HttpGrid

# SQLite takes tens of thousands of names in one question; an answer is to stay small.
AT_ONCE = 500

ReadReply = Callable[[], Sequence[Message]]
"""Reads one reply, for as long as Flower takes for it."""


def arrivals(grid: Grid, questions: Sequence[str]) -> dict[str, ReadReply]:
    """By question, how the reply that is there is read; the SuperLink will not name it again."""
    if not isinstance(grid, HttpGrid):
        return one_by_one(grid, questions)
    found: dict[str, ReadReply] = {}
    for start in range(0, len(questions), AT_ONCE):
        found |= _named(grid, questions[start : start + AT_ONCE])
    return found


def one_by_one(grid: Grid, questions: Collection[str]) -> dict[str, ReadReply]:
    """By question, how to ask for its reply alone, and to read it if it is there."""
    return {one: partial(_read, grid, one) for one in questions}


def _named(grid: Any, questions: Sequence[str]) -> dict[str, ReadReply]:
    # A copy of Flower's Grid reads the reply as if it had asked for it itself.
    link = grid._runtime_client
    answer = link.PullMessages(PullAppMessagesRequest(message_ids=questions))
    readers: dict[str, ReadReply] = {}
    for message, tree in zip(answer.messages_list, answer.message_object_trees, strict=True):
        question, reader = message.metadata.reply_to_message_id, copy(grid)
        one = PullAppMessagesResponse(messages_list=[message], message_object_trees=[tree])
        reader._client = _Told(link, one)
        readers.setdefault(question, partial(_read, reader, question))
    return {question: readers[question] for question in questions if question in readers}


class _Told:
    """Flower's connection to a SuperLink, which has been told already what there is to read."""

    def __init__(self, link: Any, answer: PullAppMessagesResponse) -> None:
        self._link, self._answer = link, answer

    def PullMessages(self, _: PullAppMessagesRequest) -> PullAppMessagesResponse:
        return self._answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


def _read(grid: Grid, question: str) -> Sequence[Message]:
    return list(grid.pull_messages([question]))
