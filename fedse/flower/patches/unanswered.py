"""Detects a SuperNode that took a question and will never answer it.

Flower's SuperNode waits for an answer without a limit and takes no other question meanwhile, while
the server considers it online. Two cases are noticed here: no app began, or none answered while the
question was valid.
"""

import threading
from collections.abc import Callable
from typing import Any

from fedse.flower.patches.replace import replace

LOOP = "flwr.supernode.start_client_internal:start_client_internal"
PULL = "flwr.supernode.start_client_internal:_pull_and_store_message"
PUSH = "flwr.supernode.start_client_internal:_push_messages"
BEGIN = "flwr.supernode.servicer.runtime.runtime_handlers:pull_messages"
GIVERS = ("flwr.supercore.routers.runtime.router:pull_messages", "flwr.supernode.main:create_app")
# An app begins within seconds; on a busy machine within a minute or two.
START_SECONDS = 180.0
# Beyond the life of a question, in which the app itself gives up and says so.
SPARE_SECONDS = 60.0
# A node that is not being asked looks for a question every few seconds.
IDLE_SECONDS = 600.0


class AnswerWatch:
    """Follows one question at a time; `now` in seconds of a clock that does not go back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._lock = now, threading.Lock()
        self._asked: float | None = None
        self._lives, self._begun = 0.0, False
        self._looked: float | None = None

    def follow(self) -> None:
        """From now on this process's questions and answers are followed."""
        replace(PULL, self.pulling, LOOP)
        replace(PUSH, self.pushing, LOOP)
        replace(BEGIN, self.beginning, *GIVERS)

    def pulling(self, pull: Callable[..., Any]) -> Callable[..., Any]:
        """`pull`, after which a question that was taken is waiting for its answer."""

        def pull_noted(*, receive: Callable[[], Any], **rest: Any) -> Any:
            lives = [0.0]
            with self._lock:
                self._looked = self._now()

            def receive_noted() -> Any:
                received = receive()
                if received is not None:
                    lives[0] = received[0].metadata.ttl
                return received

            taken = pull(receive=receive_noted, **rest)
            if taken is not None:
                with self._lock:
                    self._asked, self._lives, self._begun = self._now(), lives[0], False
            return taken

        return pull_noted

    def beginning(self, give: Callable[..., Any]) -> Callable[..., Any]:
        """`give`, by which an app takes the question it is to answer."""

        def give_noted(*args: Any, **options: Any) -> Any:
            given = give(*args, **options)
            with self._lock:
                self._begun = True
            return given

        return give_noted

    def pushing(self, push: Callable[..., Any]) -> Callable[..., Any]:
        """`push`, which returns when the question has been answered."""

        def push_noted(*args: Any, **options: Any) -> Any:
            sent = push(*args, **options)
            with self._lock:
                self._asked, self._looked = None, self._now()
            return sent

        return push_noted

    def idle(self) -> str:
        """Why no question will be taken any more; empty while one may be."""
        with self._lock:
            if self._asked is not None or self._looked is None:
                return ""
            waited = self._now() - self._looked
            return f"looked for work {waited:.0f} s ago" if waited > IDLE_SECONDS else ""

    def problem(self) -> str:
        """Why no answer is to be expected any more; empty while there may be one."""
        with self._lock:
            if self._asked is None:
                return ""
            waited = self._now() - self._asked
            if not self._begun and waited > START_SECONDS:
                return f"asked {waited:.0f} s ago, and no app began to answer"
            if waited > self._lives + SPARE_SECONDS:
                return f"asked {waited:.0f} s ago, and no answer came while it was wanted"
            return ""
