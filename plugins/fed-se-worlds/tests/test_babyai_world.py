"""Levels are minigrid's own for every seed it can finish; for the others, generation ends too."""

from random import Random
from typing import Any

import pytest

from tests.needs import needs

needs("minigrid")

import gymnasium

from fedse_worlds.babyai import world
from fedse_worlds.babyai.levels import LEVELS, gym_id
from fedse_worlds.babyai.world import World, open_level

# minigrid draws a room for this seed in which every free cell faces only objects.
STUCK = ("SynthS5R2", 200299)


def contents(level: World) -> tuple[object, ...]:
    cells = [(x, y) for x in range(level.width) for y in range(level.height)]
    things = {cell: level.at(cell) for cell in cells}
    encoded = tuple((cell, thing.encode()) for cell, thing in things.items() if thing is not None)
    return level.mission, level.pose, encoded


def unbounded(level: str, seed: int) -> World:
    game: Any = gymnasium.make(gym_id(level), disable_env_checker=True).unwrapped
    game.reset(seed=seed)
    return World(game)


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_that_minigrid_can_finish_is_left_as_it_is(level: str) -> None:
    for seed in (0, *Random(level).sample(range(100_000), 2)):
        assert contents(open_level(gym_id(level), seed)) == contents(unbounded(level, seed))


@pytest.mark.timeout(60)
def test_a_seed_without_a_pose_for_the_agent_gives_the_next_level_of_its_generator() -> None:
    name, seed = STUCK
    level = open_level(gym_id(name), seed)
    assert (level.mission, level.pose) == ("go to a green key", (2, 6, 1))
    assert contents(level) == contents(open_level(gym_id(name), seed))


def test_the_bound_does_not_choose_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [contents(open_level(gym_id("SynthS5R2"), seed)) for seed in range(20)]
    monkeypatch.setattr(world, "AGENT_PLACEMENTS", 10 * world.AGENT_PLACEMENTS)
    assert levels == [contents(open_level(gym_id("SynthS5R2"), seed)) for seed in range(20)]
