"""A round begins at its time, with the sites that have news, and a run without an end goes on."""

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fedse.config.schema import Config
from fedse.drivers.loop import federate
from fedse.errors import RunError
from fedse.events import Fact
from fedse.protocol import NEWS, Delivery, Question
from fedse.store.next_round import NextRound, ask_to_stop, forget_stop, read_next, write_next
from fedse.store.run import Run
from fedse.testing import toy_adapter, toy_spec
from fedse.types import ClientStats

SPEC, NAMES = toy_spec(), ("a", "b", "c")
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()
Has = Callable[[str, int, float], bool | None]
"""Whether a site has news in a round at a time; None = it is away."""


class Scene:
    """A run on a clock that only sleeping moves; a round takes `takes` seconds."""

    def __init__(self, path: Path, *, takes: float = 0.0, has: Has | None = None, **own: Any):
        clients = [{"name": name, "env": "maze"} for name in NAMES]
        self.config = Config.model_validate({"eval": {"episodes": 0}, **own, "clients": clients})
        self.path, self.takes, self.now = path, takes, NOON
        self.has = has or (lambda name, round, now: True)
        self.began: dict[int, float] = {}
        self.asked: list[tuple[str, tuple[str, ...], int]] = []
        self.said: list[str] = []

    def ask(self, question: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
        self.asked.append((question.kind, tuple(of), len(body)))
        for name in of:
            has = self.has(name, question.round, self.now)
            if question.kind == "news" and has is not None:
                yield Delivery(name, ClientStats(), NEWS if has else None)
            elif has is not None:
                own = toy_adapter(SPEC, 100 * question.round + NAMES.index(name))
                yield Delivery(name, ClientStats(played=1), own.to_bytes())
        self.now += self.takes if question.trains else 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, *, rounds: int, kill: Callable[[str, int], bool] = lambda *_: False) -> Run:
        """The run, asked to stop after so many rounds; `kill` says at which event it dies."""

        def seen(event: str, facts: dict[str, Fact]) -> None:
            round = int(facts.get("round") or 0)
            self.said.append(event)
            if kill(event, round):
                raise KeyboardInterrupt
            if event == "round.started":
                self.began.setdefault(round, self.now)
            if (event, round) == ("round.committed", rounds):
                ask_to_stop(self.path)

        with closing(Run(self.path, self.config, SPEC, clock=lambda: 0.0, observers=[seen])) as run:
            federate(run, self.ask, clock=lambda: self.now, sleep=self.sleep)
        return Run(self.path, self.config, SPEC, clock=lambda: 0.0)


OPEN = {"rounds": "open"}


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_an_open_run_that_stops_is_a_run_of_as_many_rounds(tmp_path: Path, rounds: int):
    ended = Scene(tmp_path / "ended", run={"rounds": rounds})
    stopped = Scene(tmp_path / "open", run=OPEN)
    runs = [scene.run(rounds=rounds) for scene in (ended, stopped)]
    first, second = ([one.after for one in run.results()] for run in runs)
    assert first == second
    assert ended.said[-1] == "run.finished"
    assert stopped.said[-1] == "run.stopped"
    forget_stop(stopped.path)
    assert stopped.run(rounds=rounds + 2).committed == rounds + 2


def test_a_stop_that_is_asked_for_while_it_waits_ends_the_wait(tmp_path: Path):
    scene = Scene(tmp_path, run=OPEN, schedule={"every": 3600.0})
    scene.run(rounds=1)
    assert (scene.now, scene.said[-1]) == (NOON, "run.stopped")


@pytest.mark.parametrize(
    ("schedule", "takes", "began"),
    [
        ({"every": 100.0}, 0.0, [0, 100, 200, 300]),
        ({"every": 100.0}, 30.0, [0, 100, 200, 300]),
        ({"every": 100.0}, 130.0, [0, 130, 260, 390]),
        ({"at": ["12:05", "14:00"]}, 60.0, [300, 7200, 86_700, 93_600]),
        ({}, 7.0, [0, 7, 14, 21]),
    ],
)
def test_rounds_begin_exactly_when_they_should(
    tmp_path: Path, schedule: Any, takes: float, began: list[int]
):
    scene = Scene(tmp_path, takes=takes, run={"rounds": 4}, schedule=schedule)
    scene.run(rounds=99)
    assert [one - NOON for one in scene.began.values()] == began


EVENTS = ("run.started", "round.waiting", "round.started", "answer.received", "round.committed")


@pytest.mark.parametrize("schedule", [{"every": 100.0}, {"at": ["12:05", "12:10", "12:30"]}])
@pytest.mark.parametrize("round", range(4))
@pytest.mark.parametrize("event", EVENTS)
def test_a_kill_changes_no_time(tmp_path: Path, event: str, round: int, schedule: Any):
    own = {"takes": 30.0, "run": {"rounds": 3}, "schedule": schedule}
    whole, cut = Scene(tmp_path / "whole", **own), Scene(tmp_path / "cut", **own)
    whole.run(rounds=99)
    try:
        cut.run(rounds=99, kill=lambda *now: now == (event, round))
    except KeyboardInterrupt:
        cut.run(rounds=99)
    assert cut.began == whole.began


@pytest.mark.parametrize("event", ["round.started", "answer.received", "round.committed"])
def test_a_server_that_was_down_for_a_part_of_a_round_keeps_the_time_of_the_next(
    tmp_path: Path, event: str
):
    scene = Scene(tmp_path, takes=30.0, run={"rounds": 3}, schedule={"every": 100.0})
    with pytest.raises(KeyboardInterrupt):
        scene.run(rounds=99, kill=lambda *now: now == (event, 2))
    scene.now += 20.0
    scene.run(rounds=99)
    began = {round: at - NOON for round, at in scene.began.items()}
    assert began == {1: 0.0, 2: began[2], 3: 200.0}


def test_a_time_that_was_missed_is_made_up_for_once(tmp_path: Path):
    scene = Scene(tmp_path, run=OPEN, schedule={"every": 100.0})
    scene.run(rounds=1)
    forget_stop(tmp_path)
    scene.now += 1000
    scene.run(rounds=3)
    assert [one - NOON for one in scene.began.values()] == [0, 1000, 1100]


def test_a_clock_that_was_set_back_delays_a_round_by_one_interval_at_most(tmp_path: Path):
    scene = Scene(tmp_path, run={"rounds": 1}, schedule={"every": 100.0})
    tmp_path.mkdir(exist_ok=True)
    write_next(tmp_path, NextRound(round=1, at=NOON + 1e8))
    scene.run(rounds=99)
    assert scene.began == {1: NOON + 100}


def test_a_site_without_news_costs_one_message_and_no_adapter(tmp_path: Path):
    scene = Scene(
        tmp_path, has=lambda name, *_: {"a": True, "b": False}.get(name), run={"rounds": 1},
        schedule={"news": 1}, aggregate={"min_clients": 2},
    )  # fmt: skip
    (result,) = scene.run(rounds=99).results()
    assert [(kind, of) for kind, of, _ in scene.asked] == [("news", NAMES), ("train", ("a",))]
    assert scene.asked[0][2] == 0
    assert (result.voters, result.abstained, result.absent) == (("a",), ("b",), ("c",))
    assert result.bytes_down == result.bytes_up == SPEC.nbytes


def test_too_little_news_puts_the_round_off_and_says_so_once(tmp_path: Path):
    def has(name: str, round: int, now: float) -> bool:
        return name == "a" or now >= NOON + 600

    scene = Scene(tmp_path, has=has, run={"rounds": 1}, schedule={"news": 2})
    scene.run(rounds=99)
    assert scene.began == {1: NOON + 600}
    assert sum(kind == "news" for kind, *_ in scene.asked) == 11
    assert scene.said.count("round.waiting") == 1


def test_who_had_news_is_not_asked_again_in_a_round_that_has_begun(tmp_path: Path):
    """A site that has harvested its news would say that it has none."""
    scene = Scene(tmp_path, run={"rounds": 1}, schedule={"news": 1})
    with pytest.raises(KeyboardInterrupt):
        scene.run(rounds=99, kill=lambda event, _: event == "aggregate.started")
    (result,) = scene.run(rounds=99).results()
    assert [kind for kind, *_ in scene.asked] == ["news", "train", "train"]
    assert result.voters == NAMES


def test_an_open_run_tries_a_round_again_that_had_too_few_answers(tmp_path: Path):
    def has(name: str, round: int, now: float) -> bool | None:
        return None if now < NOON + 300 else True

    scene = Scene(tmp_path, has=has, run=OPEN, aggregate={"min_clients": 3})
    assert scene.run(rounds=1).committed == 1
    assert scene.now == NOON + 300
    ended = Scene(tmp_path / "ended", has=has, run={"rounds": 1}, aggregate={"min_clients": 3})
    with pytest.raises(RunError, match="round 1 has 0 valid answers"):
        ended.run(rounds=1)


def test_the_file_says_what_is_waited_for(tmp_path: Path):
    scene = Scene(tmp_path, has=lambda name, *_: name == "a", run=OPEN, schedule={"news": 2})
    with pytest.raises(KeyboardInterrupt):
        scene.run(rounds=99, kill=lambda event, _: event == "round.waiting")
    told = read_next(tmp_path)
    assert told
    assert (told.round, told.at, told.begun) == (1, NOON + 60, False)
    assert told.reason == "1 of 2 sites have news"
