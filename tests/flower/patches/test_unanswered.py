"""A SuperNode that was asked, and whose work somebody else took, does not wait for ever."""

from types import SimpleNamespace
from typing import Any

from tests.needs import needs

needs("flwr")

from fedse.flower.patches.unanswered import (
    IDLE_SECONDS,
    SPARE_SECONDS,
    START_SECONDS,
    AnswerWatch,
)

LIVES = 600.0


class Node:
    """A SuperNode's loop, step by step, at times of the test's choice."""

    def __init__(self) -> None:
        self.now = 0.0
        self.watch = AnswerWatch(lambda: self.now)

    def is_asked(self, run: int | None = 1) -> None:
        message = SimpleNamespace(metadata=SimpleNamespace(ttl=LIVES))

        def pull(receive: Any, state: str) -> int | None:
            assert (receive(), state) == ((message, "tree"), "state")
            return run

        assert self.watch.pulling(pull)(receive=lambda: (message, "tree"), state="state") == run

    def begins(self) -> None:
        assert self.watch.beginning(lambda request: request)("request") == "request"

    def answers(self) -> None:
        self.watch.pushing(lambda: None)()

    def problem_at(self, now: float) -> str:
        self.now = now
        return self.watch.problem()


def test_one_that_is_not_asked_waits_for_nothing():
    assert Node().problem_at(1e9) == ""


def test_a_task_that_nobody_begins_is_noticed():
    node = Node()
    node.is_asked()
    assert node.problem_at(START_SECONDS) == ""
    assert "no app began" in node.problem_at(START_SECONDS + 1)


def test_a_task_that_was_begun_by_somebody_and_never_answered_is_noticed():
    node = Node()
    node.is_asked()
    node.begins()
    assert node.problem_at(LIVES + SPARE_SECONDS) == ""
    assert "no answer came" in node.problem_at(LIVES + SPARE_SECONDS + 1)


def test_an_answer_ends_the_wait_and_the_next_question_begins_a_new_one():
    node = Node()
    node.is_asked()
    node.begins()
    node.answers()
    assert node.problem_at(1e6) == ""
    node.is_asked()
    assert node.problem_at(1e6 + START_SECONDS) == ""
    assert "no app began" in node.problem_at(1e6 + START_SECONDS + 1)


def test_a_question_that_could_not_be_taken_is_none():
    node = Node()
    node.is_asked(run=None)
    assert node.problem_at(1e9) == ""


def test_a_node_that_no_longer_looks_for_work_is_noticed_unless_it_has_some():
    node = Node()
    node.now = 1e6
    assert node.watch.idle() == "", "it has not begun yet"
    node.is_asked(run=None)
    node.now += IDLE_SECONDS
    assert node.watch.idle() == ""
    node.now += 1
    assert node.watch.idle() == f"looked for work {IDLE_SECONDS + 1:.0f} s ago"
    node.is_asked()
    node.now += 10 * IDLE_SECONDS
    assert node.watch.idle() == "", "it waits for its app"
    node.answers()
    assert node.watch.idle() == ""
