"""BabyAI sight and moves: minigrid's own sight, macro actions that end where they say."""

from random import Random

from tests.needs import needs

needs("minigrid")

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedse_worlds.babyai.levels import LEVELS, gym_id
from fedse_worlds.babyai.moves import CHECK_ACTIONS, GO_TO, Move, action_on, available, move_of
from fedse_worlds.babyai.view import look
from fedse_worlds.babyai.world import WAIT, World, ahead_of, open_level

SEEDS = st.integers(0, 10**6)
ANY_LEVEL = st.sampled_from(LEVELS)
# Doors, keys, boxes and several rooms: every action has something to act on.
RICH_LEVEL = st.sampled_from(["MiniBossLevel", "SynthS5R2", "UnlockPickupDist", "GoToSeqS5R2"])
FEW = settings(max_examples=25, deadline=None)


def wandered(level: str, seed: int, steps: int = 12) -> World:
    """A world after some random actions, before its episode ends."""
    random, world = Random(seed), open_level(gym_id(level), seed)
    for _ in range(steps):
        view = look(world)
        move = move_of(random.choice(available(view, short=False)), view, short=False)
        for primitive in move.primitives if isinstance(move, Move) else ():
            world.act(primitive)
            if world.over:
                return open_level(gym_id(level), seed)
    return world


def facts(world: World) -> object:
    grid = [world.at((x, y)) for x in range(world.width) for y in range(world.height)]
    states = [(thing, getattr(thing, "is_open", None)) for thing in grid]
    return world.pose, world.carried, states


@FEW
@given(ANY_LEVEL, SEEDS)
def test_sight_is_minigrids_own(level: str, seed: int) -> None:
    world = wandered(level, seed)
    game = world._game
    _, mask = game.gen_obs_grid()
    inside = {
        (x, y)
        for x in range(world.width)
        for y in range(world.height)
        if (at := game.relative_coords(x, y)) is not None and mask[at[0], at[1]]
    }
    assert set(look(world).cells) == inside


@FEW
@given(RICH_LEVEL, SEEDS)
def test_objects_are_counted_from_the_nearest(level: str, seed: int) -> None:
    view = look(wandered(level, seed))
    steps = [one.ahead + abs(one.aside) for one in view.objects]
    assert steps == sorted(steps)
    for key in ("name", "plain"):
        counters = {"name": "number", "plain": "plain_number"}
        for name in {getattr(one, key) for one in view.objects}:
            numbers = [getattr(o, counters[key]) for o in view.objects if getattr(o, key) == name]
            assert numbers == list(range(1, len(numbers) + 1))


@FEW
@given(RICH_LEVEL, SEEDS, st.booleans(), st.data())
def test_an_available_action_does_something_or_says_why_not(
    level: str, seed: int, short: bool, data: st.DataObject
) -> None:
    world = wandered(level, seed)
    view = look(world)
    action = data.draw(st.sampled_from(available(view, short=short)))
    if action == CHECK_ACTIONS:
        return
    move = move_of(action, view, short=short)
    assert isinstance(move, Move), action
    before = facts(world)
    changed = world.act(move.primitives[0])
    assert changed == (facts(world) != before)
    allowed_to_fail = ("toggle", "open", "go to")  # a locked door; standing there already
    assert changed or action.startswith(allowed_to_fail), action


@FEW
@given(RICH_LEVEL, SEEDS, st.data())
def test_going_to_an_object_ends_in_front_of_it(level: str, seed: int, data: st.DataObject) -> None:
    world = wandered(level, seed)
    view = look(world)
    said = {action_on(GO_TO, one, short=False): one for one in view.objects}
    reachable = [action for action in said if action in available(view, short=False)]
    assume(reachable)
    action = data.draw(st.sampled_from(reachable))
    one, move = said[action], move_of(action, view, short=False)
    assert isinstance(move, Move)
    for primitive in move.primitives:
        assert world.act(primitive) or primitive == WAIT
        if world.over:
            return
    assert world.pose == move.end
    assert ahead_of(world.pose) == one.cell


@FEW
@given(RICH_LEVEL, SEEDS, st.data())
def test_both_prompts_mean_the_same_by_the_nth_action(
    level: str, seed: int, data: st.DataObject
) -> None:
    view = look(wandered(level, seed))
    long, short = available(view, short=False), available(view, short=True)
    assert long == [*long[: len(short)], CHECK_ACTIONS]
    for one, other in zip(long, short, strict=False):
        assert move_of(one, view, short=False) == move_of(other, view, short=True)


def test_standing_in_front_of_the_goal_already_can_be_said() -> None:
    """minigrid judges after a primitive, so going nowhere must be one."""
    view = look(wandered("GoToRedBall", 0, steps=0))
    one = view.objects[0]
    there = view._replace(pose=(one.cell[0] - 1, one.cell[1], 0))
    assert move_of(action_on(GO_TO, one, short=False), there, short=False) == ((WAIT,), there.pose)
