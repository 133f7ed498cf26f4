"""Games at their own pace: the slowest holds up nobody, and every game is played once."""

import threading
import time
from collections.abc import Sequence

import pytest

from fedse.agent.policy import Dialogue, Reply, ScriptedPolicy
from fedse.envs.base import Step
from fedse.errors import EnvError, RunError
from fedse.method.own_pace import OwnThreadEnv, rollout_at_own_pace
from fedse.method.rollout import Chunk, Game, rollout
from fedse.types import Task, Trajectory

TURNS = 4


class Counting:
    """Solved after TURNS steps; `slow` tasks take `pause` seconds a step."""

    name, system_prompt, max_turns = "counting", "count", 2 * TURNS
    pause = 0.0

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(env=self.name, id=str(i), split=split) for i in range(8)]

    def reset(self, task: Task, *, seed: int) -> Step:
        assert threading.get_ident() == self.thread, "a world lives in one thread"
        self.task, self.count = task, 0
        return Step("0", 0.0, False, False)

    def step(self, action: str) -> Step:
        assert threading.get_ident() == self.thread, "a world lives in one thread"
        if self.task.id == "0":
            time.sleep(self.pause)
        self.count += 1
        done = self.count == TURNS
        return Step(str(self.count), float(done), done, done)

    def close(self) -> None:
        assert threading.get_ident() == self.thread, "a world lives in one thread"


def games(count: int = 8) -> list[Game]:
    return [Game(task, i) for i, task in enumerate(Counting().tasks("train")[:count])]


def play(make=Counting, *, policy=None, in_flight: int = 8, step_seconds: float = 5.0, **options):
    policy = policy or ScriptedPolicy(lambda dialogue, seed: f"{seed % 7}")
    return rollout_at_own_pace(
        games(),
        make,
        policy,
        round=1,
        batch=2,
        seed=3,
        in_flight=in_flight,
        step_seconds=step_seconds,
        **options,
    )


@pytest.mark.parametrize("in_flight", [1, 3, 8, 64])
def test_how_many_are_in_flight_changes_nothing(in_flight: int):
    policy = ScriptedPolicy(lambda dialogue, seed: f"{seed % 7}")
    alone = rollout(games(), Counting, policy, round=1, batch=1, seed=3)
    assert play(in_flight=in_flight) == alone


def test_at_most_so_many_are_in_flight():
    now, most, lock = 0, 0, threading.Lock()

    class Watched(Counting):
        def step(self, action: str) -> Step:
            nonlocal now, most
            with lock:
                now, most = now + 1, max(most, now + 1)
            time.sleep(0.01)
            with lock:
                now -= 1
            return super().step(action)

    play(Watched, in_flight=3)
    assert most == 3


def test_a_slow_world_holds_up_nobody_else():
    class Slow(Counting):
        pause = 0.4

    ended: list[tuple[float, int]] = []
    began = time.monotonic()
    play(
        Slow, progress=lambda played, won, turn=0: ended.append((time.monotonic() - began, played))
    )
    seven = next(seconds for seconds, played in ended if played == 7)
    assert seven < 0.4 < TURNS * 0.4 <= ended[-1][0]


def test_a_world_that_does_not_answer_breaks_its_own_episode_only():
    class Stuck(Counting):
        pause = 3600.0

    played = play(Stuck, step_seconds=0.2)
    assert [episode.outcome for episode in played] == ["broken", *["success"] * 7]
    assert played[0].error == "step took longer than 0.2 s (engine.patience)"


def test_what_the_engine_raises_ends_the_rollout():
    class Gone:
        name = "gone"

        def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
            raise RunError("the engine is gone")

    with pytest.raises(RunError, match="the engine is gone"):
        play(policy=Gone())


def test_what_was_kept_is_not_played_again_and_all_is_kept_as_it_ends():
    class Keep:
        def __init__(self) -> None:
            self.kept: dict[int, list[Trajectory]] = {}

        def stored(self, chunk: Chunk) -> list[Trajectory] | None:
            return self.kept.get(chunk.start)

        def store(self, chunk: Chunk, played: list[Trajectory]) -> None:
            self.kept[chunk.start] = played

    keep, begun = Keep(), []

    class Noted(Counting):
        def reset(self, task: Task, *, seed: int) -> Step:
            begun.append(task.id)
            return super().reset(task, seed=seed)

    whole = play(Noted, keep=keep)
    for lost in (2, 5):
        del keep.kept[lost]
    begun.clear()
    assert play(Noted, keep=keep) == whole
    assert sorted(begun) == ["2", "5"]


def test_a_world_that_cannot_be_made_stops_the_rollout():
    def broken() -> Counting:
        raise EnvError("no such world")

    with pytest.raises(EnvError, match="no such world"):
        play(broken)


def test_what_a_world_raises_is_raised_where_it_was_asked():
    class Raises(Counting):
        def step(self, action: str) -> Step:
            raise ValueError("seven")

    env = OwnThreadEnv(Raises, 5.0)
    env.reset(env.tasks("train")[0], seed=1)
    with pytest.raises(ValueError, match="seven"):
        env.step("x")
    env.close()
