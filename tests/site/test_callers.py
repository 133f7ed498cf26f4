"""Work that nobody waits for stops when a later round is asked about, and no other work does."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from fedse.protocol import Question
from fedse.site import callers as callers_module
from fedse.site.callers import Callers, RoundClosed
from fedse.testing import toy_adapter
from fedse.types import Adapter, Fitted
from tests.site.test_worker import ask, put
from tests.toys.federation import SPEC, ServeToy, first_request, toy_config

CONFIG = toy_config()


class AtWork:
    """Training that goes on until it is let go, and looks every moment whether it is in vain."""

    def __init__(self, callers: Callers) -> None:
        self.callers, self.ends = callers, list[str]()
        self.begun, self.may_end, self.looks = threading.Event(), threading.Event(), 0

    def looked(self) -> None:
        """Somebody else waits by now, and the work has seen that since."""
        while not self.callers._waiting:
            time.sleep(0.01)
        enough = self.looks + 5
        while self.looks < enough:
            time.sleep(0.01)

    def fit(self, *given: object) -> Fitted:
        self.begun.set()
        try:
            while not self.may_end.wait(0.01):
                self.callers.look()
                self.looks += 1
        except RoundClosed:
            self.ends.append("stopped")
            raise
        self.ends.append("done")
        start = given[0]
        assert isinstance(start, Adapter)
        return Fitted(toy_adapter(SPEC, 3), loss=1.0, steps=1)


Served = tuple[AtWork, Path]


@pytest.fixture
def served(serve_toy: ServeToy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A worker whose training is `AtWork`, and its socket."""
    monkeypatch.setattr(callers_module, "LOOK_SECONDS", 0.0)
    callers = Callers()
    work = AtWork(callers)
    opened = partial(replace, fit=work.fit)
    yield work, serve_toy(CONFIG, "alpha", opened=opened, callers=callers)
    work.may_end.set()


def waits(path: Path, **changes: object) -> Callable[[], None]:
    """Somebody waits with another question; what ends the wait."""
    adapter = toy_adapter(SPEC, 2)
    request = first_request(CONFIG, adapter, **changes).model_dump(mode="json")
    connection = Client(str(path), family="AF_UNIX")
    connection.send_bytes(json.dumps({"client": None, "request": request}).encode())
    connection.send_bytes(adapter.to_bytes())
    return connection.close


LATER = {"a later round": {"round": 3}, "the games of the gate": {"round": 2, "kind": "validate"}}


@pytest.mark.parametrize("changes", LATER.values(), ids=LATER.keys())
def test_work_for_a_closed_round_stops_and_the_next_question_is_answered(served, adapter, changes):
    work, path = served
    caller = put(path, adapter, round=2)
    assert work.begun.wait(20)
    caller.close()
    other = toy_adapter(SPEC, 2)
    request = first_request(CONFIG, other, evaluate=False, **changes)
    replies = []
    asking = threading.Thread(target=lambda: replies.append(ask(path, request, other.to_bytes())))
    asking.start()
    while work.ends != ["stopped"]:
        asking.join(0.01)
    work.may_end.set()
    asking.join(20)
    assert [reply.fault for reply in replies] == [0]


NOT_LATER = {
    "the same question": {"round": 2},
    "an earlier round": {"round": 1},
    "news of the same round": {"round": 2, "kind": "news"},
    "another experiment": {"round": 3, "experiment": "other"},
}


@pytest.mark.parametrize("changes", NOT_LATER.values(), ids=NOT_LATER.keys())
def test_a_caller_that_died_does_not_stop_the_work_for_its_round(served, adapter, changes):
    """The answer waits in the outbox for the next who asks."""
    work, path = served
    caller = put(path, adapter, round=2)
    assert work.begun.wait(20)
    caller.close()
    end = waits(path, **changes)
    work.looked()
    work.may_end.set()
    reply = ask(path, first_request(CONFIG, adapter, round=2), adapter.to_bytes())
    end()
    assert (work.ends[0], reply.fault) == ("done", 0)


def test_who_still_waits_gets_the_answer_whatever_else_is_asked(served, adapter: Adapter):
    work, path = served
    with put(path, adapter, round=2) as caller:
        assert work.begun.wait(20)
        end = waits(path, round=3)
        work.looked()
        work.may_end.set()
        assert json.loads(caller.recv_bytes())["fault"] == 0
    end()
    assert work.ends[0] == "done"


def test_only_the_thread_that_serves_is_stopped(adapter: Adapter):
    callers = Callers()
    question = first_request(CONFIG, adapter)
    later: Question = question.model_copy(update={"round": 2})
    callers._questions = lambda: [later]  # type: ignore[assignment,return-value]
    with callers.serving(question, lambda: True):
        other = threading.Thread(target=callers.look)
        other.start()
        other.join()
        with pytest.raises(RoundClosed):
            callers.look()
    callers.look()
