"""What is learned from: exact cases of the filters, and laws of those that look at the record."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.config.schema import ClientSection, Config, RolloutSection, SelectSection
from fedse.events import silent
from fedse.method.rounds import client_round
from fedse.method.select import (
    SELECTS,
    OwnRecord,
    everything,
    frontier,
    hindsight,
    select_lessons,
    successes,
)
from fedse.store.buffer import Buffer, Tally
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Outcome, Task, Trajectory, Turn

TASK = Task(env="shop", id="1", split="train")
SAID = (Turn(observation="o", action="a"),)


def episode(outcome: Outcome, reward: float, turns: tuple[Turn, ...] = SAID) -> Trajectory:
    return Trajectory(
        task=TASK, seed=0, turns=turns, outcome=outcome, reward=reward, policy="p", round=1
    )


WON, PART, LOST = episode("success", 1.0), episode("failure", 0.9), episode("failure", 0.0)
CUT, BROKEN = episode("truncated", 0.5), episode("broken", 0.7)
UNPLAYED = episode("truncated", 0.0, turns=())
UNTHANKED = episode("success", 0.0)
ALL = (LOST, WON, PART, CUT, BROKEN, UNPLAYED, UNTHANKED)


def test_the_papers_filter_keeps_what_the_world_calls_a_success():
    """Neither a part of a reward nor a success without one changes that."""
    assert successes(ALL) == (WON, UNTHANKED)
    assert successes(()) == ()


def test_without_a_filter_all_that_was_acted_in_is_kept_but_what_broke():
    assert everything(ALL) == (LOST, WON, PART, CUT, UNTHANKED)


def test_the_settings_name_these():
    rules = {"success": successes, "all": everything, "frontier": frontier, "hindsight": hindsight}
    assert rules == SELECTS


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


def record_of(tallies: dict[int, Tally], **settings: int) -> OwnRecord:
    named = {game(task, "success").task: tally for task, tally in tallies.items()}
    return OwnRecord(SelectSection(**settings), named, {}, lambda episode: None)


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

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer


@settings(max_examples=20, deadline=None)
@given(rounds=st.lists(games, max_size=5), tries=st.integers(1, 4), cap=st.integers(1, 3))
def test_the_frontier_over_rounds(rounds, tries, cap):
    """By the whole record: no task that was always won, never more of a task than the cap."""
    config = Config(
        select=SelectSection(type="frontier", tries=tries, per_task=cap),
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


@given(played=games)
def test_hindsight_keeps_successes_and_asks_for_the_rest(played):
    asked: list[Trajectory] = []

    def relabel(episode: Trajectory) -> Trajectory | None:
        asked.append(episode)
        return WON if episode.turns[0].action == "a" else None

    found = hindsight(played, record=record_of({})._replace(relabel=relabel))
    whole = [episode for episode in played if episode.outcome != "broken"]
    assert asked == [episode for episode in whole if not episode.success]
    expected = [e if e.success else WON for e in whole if e.success or e.turns[0].action == "a"]
    assert list(found) == expected


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
