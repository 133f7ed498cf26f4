"""A merged adapter counts only if the sites do not lose more games with it."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from fedse.aggregate.panel import size_of_panel
from fedse.aggregate.validate import load_checked
from fedse.config.aggregation import AggregateSection
from fedse.config.judging import EvalSection, GateSection, SplitsSection
from fedse.config.schema import ClientSection, Config, RunSection
from fedse.drivers.loop import federate
from fedse.protocol import Delivery, Question
from fedse.store.run import Run
from fedse.testing import toy_spec
from fedse.types import Adapter, ClientStats

SPEC = toy_spec()
NAMES = ("a", "b", "c", "d", "e")
GAMES = 400


def config(*, liars: int, rounds: int = 3, names: Sequence[str] = NAMES) -> Config:
    return Config(
        run=RunSection(rounds=rounds),
        eval=EvalSection(episodes=0),
        aggregate=AggregateSection(clip="none", strikes=2),
        splits=SplitsSection(validation=0.2),
        gate=GateSection(episodes=GAMES, liars=liars),
        clients=tuple(ClientSection(name=name, env="maze") for name in names),
    )


def quality(adapter: Adapter) -> float:
    """How well an agent with this adapter plays: the mean of its numbers, from 0 to 1."""
    return float(np.clip(0.5 + adapter.vector.mean(), 0, 1))


class Members:
    """Honest ones improve the adapter a little; poisoners make it worse; liars miscount."""

    def __init__(
        self,
        *,
        poisoners: Collection[str] = (),
        liars: Collection[str] = (),
        honest: float = 0.05,
        poison: float = -1.5,
    ) -> None:
        self.poisoners, self.liars = poisoners, liars
        self.honest, self.poison = honest, poison
        self.away: set[str] = set()
        """Sites that do not answer the next question of the gate."""
        self.asked: list[Question] = []
        self.players: list[frozenset[str]] = []
        """Who was to play, for each question of the gate."""

    def __call__(
        self, request: Question, body: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        self.asked.append(request)
        say = self.count if request.kind == "validate" else self.vote
        away: set[str] = set()
        if request.kind == "validate":
            away, self.away = self.away, set()
            self.players.append(frozenset(of))
        for name in of:
            if name not in away:
                yield say(name, load_checked(lambda: body, SPEC))

    def vote(self, name: str, adapter: Adapter) -> Delivery:
        step = self.poison if name in self.poisoners else self.honest
        trained = Adapter(SPEC, (adapter.vector + np.float32(step)).astype(np.float32))
        return Delivery(name, ClientStats(played=1), trained.to_bytes())

    def count(self, name: str, adapter: Adapter) -> Delivery:
        won = round(GAMES * quality(adapter))
        won = GAMES - won if name in self.liars else won
        return Delivery(name, ClientStats(validation_played=GAMES, validation_succeeded=won))


def federated(
    path: Path, members: Members, *, liars: int, rounds: int = 3, names: Sequence[str] = NAMES
) -> Run:
    settings = config(liars=liars, rounds=rounds, names=names)
    with closing(Run(path, settings, SPEC, clock=lambda: 0.0)) as run:
        federate(run, members, clock=lambda: 0.0)
    return Run(path, settings, SPEC, clock=lambda: 0.0)


def test_honest_rounds_pass_with_one_more_question_each(tmp_path: Path):
    members = Members()
    run = federated(tmp_path, members, liars=0)
    assert [r.gate.refused for r in run.results() if r.gate] == [False] * 3
    assert [r.voters for r in run.results()] == [NAMES] * 3
    # The first adapter, then the merged one of each round; what passed is not asked again.
    assert [r.round for r in members.asked if r.kind == "validate"] == [1, 1, 2, 3]
    assert quality(run.adapter(3)) == pytest.approx(quality(run.adapter(0)) + 0.15, abs=1e-4)


@pytest.mark.parametrize("away", [{"e"}, {"c", "d", "e"}], ids=len)
def test_sites_that_were_away_once_do_not_close_the_gate_for_ever(tmp_path: Path, away: set[str]):
    """Too few have played to judge the first round; later they are asked about its adapter too."""
    members = Members()
    members.away = set(away)
    run = federated(tmp_path, members, liars=2)
    judged = [(r.gate.refused, r.gate.sites) for r in run.results() if r.gate]
    assert judged == [(True, 0), (False, 5), (False, 5)]
    assert [r.excluded for r in run.results()] == [()] * 3


def test_asking_about_honest_members_changes_nothing(tmp_path: Path):
    members = Members()
    run = federated(tmp_path / "asked", members, liars=2)
    plain = federated(tmp_path / "plain", Members(), liars=0)
    assert [r.after for r in run.results()] == [r.after for r in plain.results()]
    assert [r.excluded for r in run.results()] == [()] * 3
    # As many more adapters are played with as there may be liars.
    played = [r.round for r in members.asked if r.kind == "validate"]
    assert played == [1] * 4 + [2] * 3 + [3] * 3


def test_who_keeps_success_from_rising_is_left_out_only_if_asked_about(tmp_path: Path):
    """The mean of three steps of 0.1 and two of -0.15 is none, so nothing ever falls."""
    poisoned = {"poisoners": ("b", "e"), "liars": ("b", "e"), "honest": 0.1, "poison": -0.15}
    stuck = federated(tmp_path / "stuck", Members(**poisoned), liars=0)
    assert [r.voters for r in stuck.results()] == [NAMES] * 3
    assert quality(stuck.adapter(3)) == pytest.approx(quality(stuck.adapter(0)), abs=1e-4)
    run = federated(tmp_path / "asked", Members(**poisoned), liars=2)
    assert [r.voters for r in run.results()] == [("a", "c", "d")] * 3
    assert quality(run.adapter(3)) == pytest.approx(quality(run.adapter(0)) + 0.3, abs=1e-4)


def test_who_goes_many_times_as_far_is_left_out_without_asking(tmp_path: Path):
    members = Members(poisoners=("b",), poison=0.6)
    run = federated(tmp_path, members, liars=2)
    assert [r.voters for r in run.results()] == [("a", "c", "d", "e")] * 3
    near = federated(tmp_path / "near", Members(poisoners=("b",), poison=0.4), liars=2)
    assert [r.voters for r in near.results()] == [NAMES] * 3


@pytest.mark.parametrize("poisoners", [("c",), ("b", "e")])
def test_poisoners_are_named_and_left_out_then_quarantined(tmp_path: Path, poisoners):
    run = federated(tmp_path, Members(poisoners=poisoners), liars=2)
    results = list(run.results())
    honest = tuple(name for name in NAMES if name not in poisoners)
    assert [r.voters for r in results] == [honest] * 3
    for result in results[:2]:
        assert tuple(e.client for e in result.excluded if e.kind == "suspected") == poisoners
    assert {e.client for e in results[2].excluded if e.kind == "quarantined"} == {*poisoners}
    assert quality(run.adapter(3)) == pytest.approx(quality(run.adapter(0)) + 0.15, abs=1e-4)


def test_liars_within_the_bound_change_nothing(tmp_path: Path):
    honest = federated(tmp_path / "honest", Members(), liars=2)
    lied = federated(tmp_path / "lied", Members(liars=("a", "d")), liars=2)
    assert lied.adapter(3).digest == honest.adapter(3).digest
    poisoned = Members(poisoners=("a", "d"), liars=("a", "d"))
    run = federated(tmp_path / "both", poisoned, liars=2)
    assert all(set(r.voters) == {"b", "c", "e"} for r in run.results())


def test_more_poisoners_than_it_tolerates_change_nothing_either(tmp_path: Path):
    run = federated(tmp_path, Members(poisoners=("a", "b", "c")), liars=1)
    assert [r.after for r in run.results()] == [run.adapter(0).digest] * 3
    assert [r.gate.refused for r in run.results() if r.gate] == [True] * 3


def test_a_gate_needs_tasks_and_enough_members():
    with pytest.raises(ValueError, match=r"set splits\.validation"):
        Config(gate=GateSection(episodes=5), clients=config(liars=1).clients)
    with pytest.raises(ValueError, match="needs more than 6 clients"):
        config(liars=3)


def test_of_many_members_a_panel_plays_and_still_finds_who_poisons(tmp_path: Path):
    names = [f"site-{number:02d}" for number in range(60)]
    poisoners = {"site-07", "site-31"}
    members = Members(poisoners=poisoners, liars={"site-50"}, poison=-30.0)
    run = federated(tmp_path, members, liars=3, rounds=2, names=names)
    for result in run.results():
        assert result.gate
        assert not result.gate.refused
        assert {one.client for one in result.excluded} == poisoners
    assert quality(run.adapter(2)) == pytest.approx(quality(run.adapter(0)) + 0.1, abs=1e-3)
    # The adapter of the first round is known to its own panel: of the second, those are asked who
    # were not on it.
    whole = {panel for panel in members.players if len(panel) == size_of_panel(3)}
    assert len(whole) == 2, "each round has a panel of its own"
    assert all(any(panel <= one for one in whole) for panel in members.players)
    assert len(members.players) <= 12, "no trial for each of the sixty"
