"""The queue of requests for the policy; requests that arrive together are answered in one call.

The server's thread adds questions and the thread that owns the policy answers them, so a model is
used only by the thread that created it.
"""

import asyncio
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NamedTuple

from fedse.agent.policy import Dialogue, Policy, Reply
from fedse_agents.refused import RequestRefused

# How long the first request waits for others, in seconds: about one call of the tiny model
# (12 ms on one core). The wait ends early when all open episodes have asked.
WINDOW = 0.01


class _Waiting(NamedTuple):
    dialogue: Dialogue
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Reply | None]"


class BatchQueue:
    """Questions on one side, a policy on the other."""

    def __init__(self, *, batch: int, window: float = WINDOW) -> None:
        self._batch, self._window = batch, window
        self._queue: SimpleQueue[_Waiting] = SimpleQueue()
        self._closed = False
        self.calls = 0
        """Policy calls so far."""
        self.answered = 0
        """Requests so far."""

    async def ask(self, dialogue: Dialogue) -> Reply | None:
        """The policy's reply, once the questions in the queue have been answered."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(dialogue, loop, loop.create_future())
        self._queue.put(waiting)
        if self._closed:
            raise _closed()
        return await waiting.answer

    def answer_some(
        self,
        policy: Policy,
        *,
        seed: int,
        patience: float,
        expected: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> int:
        """How many were answered in one call; 0 if no request came within `patience` seconds.

        The call begins when the window has passed, the batch is full or all `expected` have asked.
        """
        requests = self._collect(patience, expected, clock)
        if not requests:
            return 0
        try:
            replies = policy.act([waiting.dialogue for waiting in requests], seed=seed)
        except BaseException:
            for waiting in requests:
                waiting.loop.call_soon_threadsafe(_refuse, waiting.answer)
            raise
        for waiting, reply in zip(requests, replies, strict=True):
            waiting.loop.call_soon_threadsafe(_deliver, waiting.answer, reply)
        self.calls, self.answered = self.calls + 1, self.answered + len(requests)
        return len(requests)

    def close(self) -> None:
        """All waiting and all later requests are refused."""
        self._closed = True
        while not self._queue.empty():
            waiting = self._queue.get()
            waiting.loop.call_soon_threadsafe(_refuse, waiting.answer)

    def _collect(
        self, patience: float, expected: Callable[[], int], clock: Callable[[], float]
    ) -> list[_Waiting]:
        try:
            requests = [self._queue.get(timeout=patience)]
        except Empty:
            return []
        ends = clock() + self._window
        while len(requests) < min(self._batch, expected()):
            try:
                requests.append(self._queue.get(timeout=max(0.0, ends - clock())))
            except Empty:
                break
        return requests


def _closed() -> RequestRefused:
    return RequestRefused(503, "closing", "the round has ended")


def _deliver(answer: "asyncio.Future[Reply | None]", reply: Reply | None) -> None:
    if not answer.done():  # the caller may have hung up
        answer.set_result(reply)


def _refuse(answer: "asyncio.Future[Reply | None]") -> None:
    if not answer.done():
        answer.set_exception(_closed())
