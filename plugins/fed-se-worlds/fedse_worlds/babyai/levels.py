"""The 40 BabyAI levels under their published numbers, and the tasks that are drawn from them.

A task is (level, seed), written `GoToRedBall/12`; AgentGym's number of the same task is
`(seed * 40) + level - 1`. Which split a task is in follows from its seed alone, so no choice of
options makes one client's training task another's test task.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count, islice

from fedse import Task
from fedse.envs import Split, require_positive, wrong_option

# In the published order: the first is level 1 (AgentGym, agentenv-babyai). In level 16, missions of
# two doors cannot be done in minigrid 3.2: it judges the second door by the first one's opening.
# fmt: off
LEVELS = (
    "GoToRedBallGrey", "GoToRedBall", "GoToRedBallNoDists", "GoToObjS6",
    "GoToLocalS8N7", "GoToObjMazeS7", "GoToImpUnlock", "GoToSeqS5R2",
    "GoToRedBlueBall", "GoToDoor", "GoToObjDoor", "Open",
    "OpenRedDoor", "OpenDoorLoc", "OpenRedBlueDoorsDebug", "OpenDoorsOrderN4Debug",
    "Pickup", "UnblockPickup", "PickupLoc", "PickupDistDebug",
    "PickupAbove", "PutNextLocalS6N4", "PutNextS7N4Carrying", "Unlock",
    "UnlockLocalDist", "KeyInBox", "UnlockPickupDist", "BlockedUnlockPickup",
    "UnlockToUnlock", "ActionObjDoor", "FindObjS7", "KeyCorridorS6R3",
    "OneRoomS20", "MoveTwoAcrossS8N9", "SynthS5R2", "SynthLoc",
    "SynthSeq", "MiniBossLevel", "BossLevel", "BossLevelNoUnlock",
)
# fmt: on

# Levels done without leaving the first room, or only to step through its door.
ONE_ROOM = (1, 2, 3, 4, 5, 9, 10, 11, 13, 14, 15, 19, 20, 22, 25, 26, 30)

PRESETS: Mapping[str, tuple[str, ...]] = {
    "all": LEVELS,
    "one_room": tuple(LEVELS[number - 1] for number in ONE_ROOM),
    "easy": ("GoToRedBallGrey", "GoToRedBall", "GoToLocalS8N7", "PickupLoc", "ActionObjDoor"),
}

# One seed in this many, the last of each group, is a test task.
SEEDS_PER_TEST_SEED = 5


def gym_id(level: str) -> str:
    """The name under which minigrid 3 registers a level."""
    return f"BabyAI-{level}-v{1 if level == 'GoToObjS6' else 0}"


def level_names(levels: str | int | Sequence[str | int]) -> tuple[str, ...]:
    """The levels given by name, number or preset, each once, in the given order."""
    entries = (levels,) if isinstance(levels, str | int) else levels
    names = tuple(dict.fromkeys(name for entry in entries for name in _levels_named(entry)))
    if not names:
        raise wrong_option("babyai", "levels", levels, "at least one level")
    return names


def _levels_named(entry: str | int) -> tuple[str, ...]:
    if isinstance(entry, str) and entry in PRESETS:
        return PRESETS[entry]
    if entry in LEVELS:
        return (str(entry),)
    if type(entry) is int and 1 <= entry <= len(LEVELS):
        return (LEVELS[entry - 1],)
    expected = f"a number from 1 to {len(LEVELS)}, {', '.join(PRESETS)}, or of {' '.join(LEVELS)}"
    raise wrong_option("babyai", "levels", entry, expected)


def seeds(split: Split) -> Iterator[int]:
    """The seeds of a split, without end."""
    for seed in count():
        if (seed % SEEDS_PER_TEST_SEED == SEEDS_PER_TEST_SEED - 1) == (split == "test"):
            yield seed


def tasks_of(
    levels: tuple[str, ...], per_level: Sequence[int], held_out: tuple[str, ...]
) -> Mapping[Split, Sequence[Task]]:
    """`per_level` = [train, test] tasks of each level; any first part of a list is mixed.

    The test tasks are of the levels `held_out`.
    """
    if len(per_level) != 2:
        raise wrong_option("babyai", "seeds_per_level", per_level, "[train, test]")
    for number in per_level:
        require_positive("babyai", "seeds_per_level", number)
    return {"train": _tasks(levels, "train", per_level[0]),
            "test": _tasks(held_out, "test", per_level[1])}  # fmt: skip


@cache
def _tasks(levels: tuple[str, ...], split: Split, per_level: int) -> tuple[Task, ...]:
    """Kept, as a rollout makes many instances."""
    return tuple(
        Task(env="babyai", id=f"{level}/{seed}", split=split)
        for seed in islice(seeds(split), per_level)
        for level in levels
    )
