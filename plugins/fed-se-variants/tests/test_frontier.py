"""Which episodes the frontier and hindsight keep, by a client's record."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.config.schema import ClientSection, Config, RolloutSection, SelectSection
from fedse.events import silent
from fedse.method.rounds import client_round
from fedse.method.select import OwnRecord, select_lessons, successes
from fedse.store.buffer import Buffer, Tally
from fedse.testing import CoinWorld, open_toy_site, toy_adapter, toy_spec
from fedse.types import Outcome, Task, Trajectory, Turn
from fedse_variants.frontier import FRONTIER as frontier


def game(task: int, outcome: Outcome, said: str = "a", round: int = 1) -> Trajectory:
    return Trajectory(
        task=Task(env="shop", id=str(task), split="train"),
        seed=0,
        turns=(Turn(observation="o", action=said),),
        outcome=outcome,
        reward=float(outcome == "success"),
        policy="p",
        round=round,
    )


def record_of(tallies: dict[int, Tally], **options: int) -> OwnRecord:
    named = {game(task, "success").task: tally for task, tally in tallies.items()}
    return OwnRecord(options, named, {}, CoinWorld, CoinWorld().tasks("train"))


def test_the_frontier_is_what_is_won_sometimes():
    tallies = {1: Tally(2, 2), 2: Tally(2, 1), 3: Tally(1, 1), 4: Tally(2, 0)}
    played = [game(task, "success") for task in (1, 2, 3)] + [game(4, "failure")]
    assert frontier(played, record=record_of(tallies)) == (played[1], played[2])
    assert frontier(played, record=record_of(tallies, tries=1)) == (played[1],)
    assert frontier(played, record=record_of(tallies, tries=3)) == tuple(played[:3])


def test_of_one_task_so_many_different_episodes_are_kept():
    played = [game(1, "success", said) for said in "aabc"]
    record = record_of({1: Tally(9, 4)}, per_task=2)
    assert frontier(played, record=record) == tuple(played[:3])
    earlier = {played[0].task: frozenset({played[3].content_digest})}
    assert frontier(played, record=record._replace(kept=earlier)) == (*played[:2], played[3])


games = st.lists(
    st.builds(
        game,
        st.integers(0, 3),
        st.sampled_from(["success", "failure", "truncated", "broken"]),
        st.sampled_from("abcd"),
    ),
    max_size=8,
)


class HomeOnly:
    """Of a site only what a rule needs."""

    make_env = CoinWorld

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def tasks(self, purpose: str) -> list[Task]:
        return []


@settings(max_examples=20, deadline=None)
@given(rounds=st.lists(games, max_size=5), tries=st.integers(1, 4), cap=st.integers(1, 3))
def test_the_frontier_over_rounds(rounds, tries, cap):
    """By the whole record: no task that was always won, never more of a task than the cap."""
    config = Config(
        select=SelectSection(type="frontier", options={"tries": tries, "per_task": cap}),
        clients=(ClientSection(name="a", env="e"),),
    )
    with TemporaryDirectory() as folder, closing(Buffer(Path(folder) / "buffer.db")) as buffer:
        past: list[Trajectory] = []
        for number, played in enumerate(rounds, start=1):
            now = [episode.model_copy(update={"round": number}) for episode in played]
            past += now
            buffer.record_played(now, experiment="run", bodies=False)
            chosen = select_lessons(now, HomeOnly(buffer), config, round=number)
            assert chosen == select_lessons(now, HomeOnly(buffer), config, round=number)
            for episode in chosen:
                ends = [e.success for e in past if e.task == episode.task and e.outcome != "broken"]
                assert episode.success
                assert not all(ends) or len(ends) < tries
            buffer.add(chosen, experiment="run")
            assert select_lessons(now, HomeOnly(buffer), config, round=number) == chosen
        kept = buffer.kept_by_task("run", before=len(rounds) + 1)
        assert all(len(digests) <= cap for digests in kept.values())
        assert sum(map(len, kept.values())) == len(buffer)


@given(played=games)
def test_a_frontier_that_knows_too_little_is_the_papers_filter(played):
    tallies = {task: Tally(8, 8) for task in range(4)}
    assert frontier(played, record=record_of(tallies, tries=9)) == successes(played)


@pytest.mark.parametrize("type", ["frontier", "hindsight"])
def test_a_world_that_names_no_goal_is_no_hindrance(type: str, tmp_path: Path):
    """The coin world cannot relabel; its first game of a task decides nothing."""
    config = Config(
        rollout=RolloutSection(episodes=8),
        select=SelectSection(type=type),
        clients=(ClientSection(name="a", env="fedse.testing:CoinWorld"),),
    )
    site = open_toy_site(config, "a", tmp_path, clock=lambda: 0.0)
    client_round(toy_adapter(toy_spec(), 1), site, config, round=1, emit=silent)
    won = [game for game in site.buffer.played("run") if game.outcome == "success"]
    assert won
    assert {e.task.id for e in site.buffer.lessons("run", 1)} == {game.task for game in won}


def test_unknown_options_are_refused():
    for wrong in ({"trys": 2}, {"tries": 0}, {"per_task": "2"}):
        with pytest.raises(ValueError, match=r"select\.options\."):
            SelectSection(type="frontier", options=wrong)
    with pytest.raises(ValueError, match="takes no options"):
        SelectSection(type="hindsight", options={"tries": 2})
