"""Who waits at a worker's socket while another is served, and whether they ask about later rounds.

A caller hangs up when its question has expired, and the server asks about a round only when all
earlier ones are closed. So work that nobody waits for, while a later question does, is in vain.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, Listener
from queue import SimpleQueue
from typing import Any

from fedse.protocol import Question
from fedse.site.listening import accepted, first_frame, hung_up
from fedse.site.socket_client import MAX_JSON_BYTES
from fedse.types import Clock

LOOK_SECONDS = 1.0
"""Between two looks at who waits."""


class RoundClosed(BaseException):
    """The work stops here: no code that turns errors into data may take this for one."""


class Callers:
    """The connections of a worker, which serves one at a time."""

    def __init__(self, *, timer: Clock = time.monotonic) -> None:
        self._timer, self._next = timer, 0.0
        self._queue: SimpleQueue[Connection[Any, Any] | None] = SimpleQueue()
        self._waiting: list[Connection[Any, Any]] = []
        self._served: tuple[Question, Callable[[], bool], int] | None = None

    def one_by_one(
        self, listener: Listener, log: logging.Logger
    ) -> "Iterator[Connection[Any, Any]]":
        """Every connection in its turn, until the listener is closed."""
        threading.Thread(target=self._take, args=(listener, log), daemon=True).start()
        while (connection := self._queue.get()) is not None:
            self._waiting.remove(connection)
            yield connection

    def _take(self, listener: Listener, log: logging.Logger) -> None:
        for connection in accepted(listener, log):
            self._waiting.append(connection)
            self._queue.put(connection)
        self._queue.put(None)

    @contextmanager
    def serving(self, question: Question, gone: Callable[[], bool]) -> Iterator[None]:
        """Inside, `look` ends work on this question that is in vain."""
        self._served = question, gone, threading.get_ident()
        try:
            yield
        finally:
            self._served = None

    def look(self) -> None:
        """Raises RoundClosed if the question's round is closed and its caller has hung up."""
        now = self._timer()
        # Other threads, such as those of games at their own pace, are not the ones to stop.
        if self._served is None or now < self._next or self._served[2] != threading.get_ident():
            return
        self._next = now + LOOK_SECONDS
        question, gone, _ = self._served
        if gone() and any(_is_later(one, question) for one in self._questions()):
            raise RoundClosed

    def _questions(self) -> Iterator[Question]:
        """What those who wait ask, as far as it can be read."""
        for connection in [*self._waiting]:
            if hung_up(connection):
                continue
            try:
                asked = json.loads(first_frame(connection, MAX_JSON_BYTES))
                yield Question.model_validate(asked["request"], strict=True)
            except (ValueError, LookupError, TypeError):
                continue  # it is refused when its turn comes


def _is_later(one: Question, than: Question) -> bool:
    """Whether `one` is asked only after the answers to `than` were counted."""
    validates = one.kind == "validate" and than.trains and one.round == than.round
    return one.experiment == than.experiment and (one.round > than.round or validates)
