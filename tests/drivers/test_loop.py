"""The round loop on answers that are made up: what counts, what is asked, what is recorded."""

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from fedse.aggregate.validate import load_checked
from fedse.config.aggregation import AggregateSection
from fedse.config.judging import EvalSection
from fedse.config.schema import ClientSection, Config
from fedse.config.schema import RunSection as RunSection
from fedse.drivers.loop import federate
from fedse.errors import RunError
from fedse.events import Fact
from fedse.protocol import Delivery, Question
from fedse.store.run import Run
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats

SPEC = toy_spec()
NAMES = ("a", "b", "c")
Said = Callable[[str, Question, Adapter], Delivery | None]


def config(*, rounds: int = 3, min_clients: int = 2, every: int = 1, episodes: int = 4) -> Config:
    return Config(
        run=RunSection(rounds=rounds),
        eval=EvalSection(episodes=episodes, every=every),
        aggregate=AggregateSection(min_clients=min_clients),
        clients=tuple(ClientSection(name=name, env="maze") for name in NAMES),
    )


class Answers:
    """Each member says what `said` gives; what was asked is kept."""

    def __init__(self, said: Said) -> None:
        self._said = said
        self.asked: list[Question] = []

    def __call__(
        self, request: Question, body: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        self.asked.append(request)
        adapter = load_checked(lambda: body, SPEC)
        assert request.adapter == adapter.digest
        for name in NAMES:
            if name in of and (told := self._said(name, request, adapter)):
                yield told


def votes(name: str, request: Question, current: Adapter) -> Delivery:
    own = toy_adapter(SPEC, 100 * request.round + NAMES.index(name))
    return Delivery(name, ClientStats(played=1), own.to_bytes())


def abstains(name: str, request: Question, current: Adapter) -> Delivery:
    return Delivery(name, ClientStats(played=1), None)


def test_a_member_is_asked_from_the_round_it_joins(tmp_path: Path):
    base = config(rounds=3, min_clients=2)
    late = base.clients[1].model_copy(update={"joins": 3})
    settings = base.model_copy(update={"clients": (base.clients[0], late, base.clients[2])})
    with closing(Run(tmp_path, settings, SPEC, clock=lambda: 0.0)) as run:
        federate(run, Answers(votes), clock=lambda: 0.0)
        results = list(run.results())
    assert [one.voters for one in results] == [("a", "c"), ("a", "c"), NAMES]
    assert {one.absent for one in results} == {()}
    assert results[0].bytes_down * 3 == results[2].bytes_down * 2


def away(name: str, request: Question, current: Adapter) -> None:
    return None


def first(said: Said, others: Said) -> Said:
    """The first member does one thing, the others another."""
    return lambda name, *rest: (said if name == NAMES[0] else others)(name, *rest)


def federated(path: Path, said: Said, settings: Config) -> tuple[Run, Answers]:
    ask = Answers(said)
    with closing(Run(path, settings, SPEC, clock=lambda: 0.0)) as run:
        federate(run, ask, clock=lambda: 0.0)
    return Run(path, settings, SPEC, clock=lambda: 0.0), ask


def test_an_answer_without_a_vote_is_a_valid_answer(tmp_path: Path):
    run, _ = federated(tmp_path, first(votes, abstains), config(min_clients=3))
    told = [(r.voters, r.abstained, r.absent) for r in run.results()]
    assert told == [(("a",), ("b", "c"), ())] * 3


def test_where_nobody_votes_the_adapter_stays_and_the_round_counts(tmp_path: Path):
    run, _ = federated(tmp_path, abstains, config(min_clients=3))
    assert [(r.before, r.after) for r in run.results()] == [(run.adapter(0).digest,) * 2] * 3
    assert [r.drift for r in run.results()] == [None] * 3


def test_too_few_valid_answers_commit_nothing(tmp_path: Path):
    with pytest.raises(RunError, match=r"round 1 has 1 valid answers, aggregate\.min_clients is 2"):
        federated(tmp_path, first(votes, away), config(min_clients=2))
    assert Run(tmp_path, config(), SPEC, clock=lambda: 0.0).committed == 0
    run, _ = federated(tmp_path, first(away, votes), config(min_clients=2))
    assert [(r.voters, r.absent) for r in run.results()] == [(("b", "c"), ("a",))] * 3


def test_who_sends_back_the_adapter_of_an_earlier_round_is_rejected(tmp_path: Path):
    """Sent back in the round it was sent out it is a vote: somebody whom training did not move."""
    sent: list[bytes] = []

    def sends_back(name: str, request: Question, current: Adapter) -> Delivery:
        sent.append(current.to_bytes())
        return Delivery(name, ClientStats(), sent[0])

    run, _ = federated(tmp_path, first(sends_back, votes), config(episodes=0))
    assert [r.voters for r in run.results()] == [("a", "b", "c"), ("b", "c"), ("b", "c")]
    reasons = [exclusion.reason for r in run.results() for exclusion in r.excluded]
    assert len(reasons) == 2
    assert all(reason.endswith("the global adapter of an earlier round") for reason in reasons)


@pytest.mark.parametrize(
    ("counts", "counted"),
    [
        ({"played": 32}, True),
        ({"played": 33}, False),
        ({"eval_played": 4}, True),
        ({"eval_played": 5}, False),
    ],
)
def test_who_counts_more_games_than_it_was_asked_for_is_rejected(
    tmp_path: Path, counts: dict[str, int], counted: bool
):
    def claims(name: str, request: Question, current: Adapter) -> Delivery:
        return votes(name, request, current)._replace(stats=ClientStats(**counts))

    settings = config(rounds=1)
    assert settings.rollout.episodes == 32
    run, _ = federated(tmp_path, first(claims, votes), settings)
    (result,) = run.results()
    assert ("a" in result.voters) is counted
    assert bool(run.evals(0)) is (counted and "eval_played" in counts)


def test_each_round_begins_with_the_adapter_the_last_one_ended_with(tmp_path: Path):
    run, ask = federated(tmp_path, votes, config())
    after = [run.adapter(index).digest for index in range(4)]
    assert len(set(after)) == 4
    assert [(r.before, r.after) for r in run.results()] == list(pairwise(after))
    # After the last round the last adapter is measured, and nobody trains.
    assert [(r.round, r.adapter, r.trains) for r in ask.asked] == [
        (1, after[0], True),
        (2, after[1], True),
        (3, after[2], True),
        (4, after[3], False),
    ]


@pytest.mark.parametrize(
    ("every", "episodes", "measured"),
    [(1, 4, [1, 2, 3, 4, 5, 6]), (2, 4, [1, 3, 5, 6]), (3, 4, [1, 4, 6]), (1, 0, [])],
)
def test_the_first_and_the_last_adapter_are_measured_and_others_as_the_settings_say(
    tmp_path: Path, every: int, episodes: int, measured: list[int]
):
    settings = config(rounds=5, every=every, episodes=episodes)
    _, ask = federated(tmp_path, votes, settings)
    assert [request.round for request in ask.asked if request.evaluate] == measured
    assert len(ask.asked) == (6 if episodes else 5)


def test_what_a_client_measured_is_on_record_under_the_adapter_it_was_sent(tmp_path: Path):
    def measures(name: str, request: Question, current: Adapter) -> Delivery:
        stats = ClientStats(eval_played=4, eval_succeeded=request.round % 4)
        return Delivery(name, stats, votes(name, request, current).adapter)

    run, _ = federated(tmp_path, measures, config())
    won = {index: {s.eval_succeeded for s in run.evals(index).values()} for index in range(4)}
    assert won == {0: {1}, 1: {2}, 2: {3}, 3: {0}}
    assert {index: sorted(run.evals(index)) for index in range(4)} == {
        index: list(NAMES) for index in range(4)
    }


def test_a_round_in_which_nobody_votes_raises_an_alarm(tmp_path: Path):
    raised: list[tuple[object, object]] = []

    def observer(event: str, facts: dict[str, Fact]) -> None:
        if event == "alarm.raised":
            raised.append((facts["round"], facts["alarm"]))

    settings = config(rounds=2, min_clients=3)
    run = Run(tmp_path, settings, SPEC, clock=lambda: 0.0, observers=[observer])
    with closing(run):
        federate(run, Answers(abstains), clock=lambda: 0.0)
    names = ["nothing-solved", "nobody-voted"]
    assert raised == [(round, name) for round in (1, 2) for name in names]
