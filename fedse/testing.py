"""Fakes we ship: a site that plays and learns without a model, for fast tests of everything else.

The world is real, the policy follows a script, and "training" moves the adapter by a vector that
depends on the lessons, the seed and the course of the run, so two runs agree only if they did the
same work.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from fedse.agent.policy import Dialogue, ScriptedPolicy
from fedse.blocks import in_blocks
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course, GradientSum, StepCourse
from fedse.envs.base import Step, make_env
from fedse.errors import EnvError
from fedse.method.rollout import rollout
from fedse.method.site import Site, tasks_of
from fedse.seeds import seed_of
from fedse.site.forgotten import remaining_tasks
from fedse.site.open import check_hint, open_buffer, recording
from fedse.site.private_training import require_plan
from fedse.site.resume import KeepInBuffer
from fedse.types import Adapter, AdapterSpec, Fitted, Lessons, Split, Task, TensorSpec

STEM = "base_model.model.layer"


def toy_spec(*, rank: int = 2, inputs: int = 4, outputs: int = 3) -> AdapterSpec:
    """A spec of one small layer that belongs to no real model."""
    return AdapterSpec(
        base="toy",
        base_digest="0" * 64,
        rank=rank,
        alpha=2.0 * rank,
        target_modules=("layer",),
        tensors=(
            TensorSpec(name=f"{STEM}.lora_A.weight", shape=(rank, inputs)),
            TensorSpec(name=f"{STEM}.lora_B.weight", shape=(outputs, rank)),
        ),
    )


def toy_adapter(spec: AdapterSpec, seed: int, *, scale: float = 1.0) -> Adapter:
    """An adapter of pseudo-random numbers."""
    vector = np.random.default_rng(seed).standard_normal(spec.size) * scale
    return Adapter(spec, vector.astype(np.float32))


class CoinWorld:
    """Say `heads` to win: the smallest environment there is, with an expert."""

    def __init__(self, *, tasks: int = 8, secret: str = "") -> None:
        self.name = "coin"
        self.system_prompt = f"coin {secret}".strip()
        self.max_turns = 3
        self._count, self._secret, self._left = tasks, secret, 0

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(env="coin", id=f"{split}-{i}", split=split) for i in range(self._count)]

    def reset(self, task: Task, *, seed: int) -> Step:
        self._left = self.max_turns
        return Step(f"{task.id} {self._secret}".strip())

    def step(self, action: str) -> Step:
        if not self._left:
            raise EnvError("coin: no episode is open", hint="call reset first")
        won = action.strip() == "heads"
        self._left = 0 if won else self._left - 1
        observation = f"{self._left} left {self._secret}".strip()
        valid = action.strip() in self.actions()
        return Step(observation, reward=float(won), done=not self._left, success=won, valid=valid)

    def actions(self) -> Sequence[str]:
        return ("heads", "tails")

    def expert(self) -> str:
        return "heads"

    def close(self) -> None:
        self._left = 0


def open_toy_site(config: Config, client: str, home: Path, *, clock: Callable[[], float]) -> Site:
    """A site whose agent guesses and whose trainer counts; no torch is loaded."""
    member = config.client(client)
    make = partial(make_env, member.env, member.options)
    spec = in_blocks(toy_spec(), config.roles.blocks)
    env = make()
    require_plan(config, env)
    buffer = open_buffer(config, home, env)
    keep = KeepInBuffer(buffer, config, client, spec)
    return Site(
        client,
        spec,
        make,
        partial(remaining_tasks, partial(tasks_of, env, member, config.splits), buffer),
        buffer,
        lambda adapter, temperature: ScriptedPolicy(_guess, name=adapter.digest),
        _nudge,
        clock,
        recording(partial(rollout, keep=keep), buffer, config),
        home=home,
        check=check_hint(member),
        gradients=_slopes,
    )


def _guess(dialogue: Dialogue, seed: int) -> str:
    return Random(seed_of(seed, dialogue.observation)).choice(("heads", "tails", "edge"))


def _nudge(
    start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
) -> Fitted:
    step_seed, moments = seed_of(seed, *(lesson.content_digest for lesson in lessons)), None
    if course.private:
        step_seed = seed_of(step_seed, course.private.secret.hex(), course.private.steps)
    known = settings.moments(lambda: course.moments or b"")
    if known is not None:
        step_seed = seed_of(step_seed, known.hex())
        moments = str(step_seed).encode()
    step = np.random.default_rng(step_seed).standard_normal(start.spec.size)
    for name, part in start.spec.slices.items():
        if settings.factors != "both" and f".lora_{settings.factors.upper()}." not in name:
            step[part] = 0
    vector = (start.vector + 0.01 * course.arc.rate(0, of=1) * step).astype(np.float32)
    adapter = Adapter(start.spec, vector)
    steps = course.private.steps if course.private else len(lessons)
    return Fitted(adapter, loss=1.0 / max(1, len(lessons)), steps=steps, moments=moments)


def _slopes(start: Adapter, lessons: Lessons, course: StepCourse, part: AdapterSpec) -> GradientSum:
    """Each unit has a direction of its own, which is as long as the clip."""
    total = np.zeros(part.size, dtype=np.int64)
    for unit in course.units:
        seed = seed_of(start.digest, *(lessons[place].content_digest for place in unit))
        row = np.random.default_rng(seed).standard_normal(part.size)
        row *= course.clip / np.linalg.norm(row)
        total += np.trunc(row / course.unit).astype(np.int64)
    return GradientSum(total, 1.0 / max(1, len(course.units)))
