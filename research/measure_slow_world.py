"""One slow world among eight, with a real engine: how long do the seven others take?

    FEDSE_MODELS=FOLDER python research/measure_slow_world.py CONFIG docs/results/slow-world.json

CONFIG has `[engine] type = "vllm"`. The same eight episodes of eight turns of twenty tokens are
played without a slow world, with one that sleeps two seconds in every step, and with it in lock
step. Written are the seconds until the seven others and until all eight had ended.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fedse.adapters.base import initial_adapter, spec_of
from fedse.config.file import load_config
from fedse.engine.policy import ServedPolicy
from fedse.envs.base import Step
from fedse.method.own_pace import rollout_at_own_pace
from fedse.method.rollout import choose_games, rollout
from fedse.types import Task
from research.bench.policies import served_policy
from research.bench.talk import Talk

EPISODES, TURNS, NEW_TOKENS, PAUSE_SECONDS = 8, 8, 20, 2.0


class SlowTalk:
    """Talk; the task `slow` sleeps before it answers."""

    def __init__(self, slow: str | None) -> None:
        self._talk, self._slow = Talk(TURNS), slow
        self.name, self.max_turns = self._talk.name, self._talk.max_turns
        self.system_prompt, self.tasks = self._talk.system_prompt, self._talk.tasks
        self.close = self._talk.close

    def reset(self, task: Task, *, seed: int) -> Step:
        self._pause = PAUSE_SECONDS if task.id == self._slow else 0.0
        return self._talk.reset(task, seed=seed)

    def step(self, action: str) -> Step:
        time.sleep(self._pause)
        return self._talk.step(action)


def seconds_of(play: Callable[..., object]) -> dict[str, float]:
    ended: list[tuple[int, float]] = []
    began = time.monotonic()
    play(progress=lambda played, won, turn=0: ended.append((played, time.monotonic() - began)))
    seven = next(seconds for played, seconds in ended if played >= EPISODES - 1)
    return {"seven": round(seven, 2), "eight": round(ended[-1][1], 2)}


def measure(policy: ServedPolicy, *, seed: int) -> dict[str, dict[str, float]]:
    """Each way has prompts of its own, which the server does not remember from another."""
    games = choose_games(Talk(TURNS).tasks("train"), EPISODES, seed=1)
    slow = games[0].task.id
    pace = partial(rollout_at_own_pace, in_flight=EPISODES, step_seconds=60.0)
    ways = {
        "no slow world": partial(pace, games, partial(SlowTalk, None)),
        "one slow world": partial(pace, games, partial(SlowTalk, slow)),
        "one slow world, lock step": partial(rollout, games, partial(SlowTalk, slow)),
    }
    found = {}
    for number, (name, way) in enumerate(ways.items()):
        own = seed * len(ways) + number
        found[name] = seconds_of(partial(way, policy=policy, round=1, batch=EPISODES, seed=own))
    return found


def main(experiment: Path, result: Path) -> None:
    config = load_config(experiment)
    adapter = initial_adapter(spec_of(config), seed=0)
    with served_policy(config, adapter, new_tokens=NEW_TOKENS) as (policy, _):
        # The first one also puts the adapter in.
        found = [measure(policy, seed=seed) for seed in range(4)][1:]
    result.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
