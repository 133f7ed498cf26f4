"""Who takes part: what one client owns, and what the server holds of a client's reply."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from fedse.agent.policy import Policy
from fedse.aggregate.validate import Payload
from fedse.aggregate.variants import State
from fedse.audit.game import Probe
from fedse.committed import Exclusion, LateVote, RegionVotes
from fedse.config.judging import SplitsSection
from fedse.config.schema import ClientSection, Config
from fedse.config.training import TrainSection
from fedse.course import Course, GradientSum, StepCourse
from fedse.envs.base import Env, EnvFactory
from fedse.errors import EnvError, boundary
from fedse.method.progress import GamesProgress
from fedse.method.rollout import Game, rollout
from fedse.seeds import seed_of
from fedse.store.buffer import Buffer
from fedse.types import (
    Adapter,
    AdapterSpec,
    ClientStats,
    Fitted,
    Lessons,
    Purpose,
    Split,
    Task,
    Trajectory,
)


class Play(Protocol):
    """How a client's games are played: one trajectory per game, in their order."""

    def __call__(
        self,
        games: Sequence[Game],
        make_env: EnvFactory,
        policy: Policy,
        /,
        *,
        round: int,
        batch: int,
        max_turns: int | None,
        seed: int,
        progress: GamesProgress = ...,
    ) -> list[Trajectory]: ...


class Fit(Protocol):
    """How a client learns: starting adapter, lessons, settings and seed -> the adapter afterwards.

    The course gives the place of the fit in the run; `Course()` is independent of other rounds.
    """

    def __call__(
        self, start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course, /
    ) -> Fitted: ...


class Gradients(Protocol):
    """What a client adds to a private step, before noise: the sum of its units' short gradients.

    Of the global adapter, in the layout of `part`, the tensors of it that are learned.
    """

    def __call__(
        self, start: Adapter, lessons: Lessons, course: StepCourse, part: AdapterSpec, /
    ) -> GradientSum: ...


@dataclass(frozen=True)
class Site:
    """What one client owns and nobody else sees."""

    client: str
    spec: AdapterSpec
    make_env: EnvFactory
    tasks: Callable[[Purpose], Sequence[Task]]
    """The client's own tasks; the held-out ones are never trained on."""
    buffer: Buffer
    make_policy: Callable[[Adapter, float], Policy]
    """Adapter and temperature -> something that acts."""
    fit: Fit
    clock: Callable[[], float]
    """For what is dated: seconds since 1970, as far as the machine knows."""
    play: Play = rollout
    """We step the environment, unless the client's program owns the loop."""
    prepare: Callable[[Sequence[Trajectory]], Sequence[Trajectory]] = list
    """Lessons as any site of the same base model could learn from them."""
    home: Path | None = None
    """The client's own folder, where its ledger is kept; None = it keeps none."""
    keep: Callable[[str, int, Adapter], None] = lambda name, round, adapter: None
    """Keeps an adapter of a round at the client, by a name such as `personal`; it never leaves."""
    check: str = ""
    """What to do when the client's episodes break; the environment is named as in the config."""
    probe: Probe | None = None
    """What an attacker would compute, for the site's own audit; None = there is no model here."""
    gradients: Gradients | None = None
    """For private steps; None = there is no model here."""
    timer: Callable[[], float] = time.monotonic
    """For how long something takes: setting the machine's clock does not change it."""


class Answer(NamedTuple):
    """What the server has of one client's reply."""

    client: str
    stats: ClientStats
    read: Callable[[], Payload] | None
    """Gives the adapter's bytes; None = the client has no vote."""
    late: LateVote | None = None
    """What is recorded of a vote that was made for an earlier round; None = it is of this one."""
    blocks: tuple[str, ...] = ()
    """The blocks of the adapter that the vote is on; empty = all of it."""


class Merged(NamedTuple):
    """The next global adapter and whose work it is."""

    adapter: Adapter
    moments: State
    """What the aggregator remembers for the next round."""
    voters: tuple[str, ...]
    abstained: tuple[str, ...]
    excluded: tuple[Exclusion, ...]
    blocks: Mapping[str, tuple[str, ...]] = {}
    """Voter -> the blocks of the adapter that its vote is on, if the adapter has blocks."""
    regions: tuple[RegionVotes, ...] = ()
    """Of the voters that are regions."""


def course_in(config: Config, client: str, round: int) -> Course:
    """Where in the experiment a client's fit of `round` stands."""
    warm = round <= config.warmstart.rounds
    return Course(config.arc_in(round), round=round, warm=warm, site=client)


def tasks_of(
    env: Env, client: ClientSection, splits: SplitsSection, purpose: Purpose
) -> Sequence[Task]:
    """The client's tasks for a purpose; no two purposes share one. All clients share the test."""
    split: Split = "test" if purpose == "test" else "train"
    with boundary(EnvError, f"{env.name}.tasks({split!r})"):
        tasks = env.tasks(split)
    if split == "test":
        return tasks
    first, step = client.part or (1, 1)
    own = [task for task in tasks[first - 1 :: step] if purpose_of(task, splits) == purpose]
    if not own:
        raise EnvError(
            f"{env.name} has {len(tasks)} training tasks, part {first} of {step} has none for "
            f"{purpose}",
            hint="give the client more tasks, or change [splits]",
        )
    if purpose != "train" or client.tasks is None or client.tasks >= len(own):
        return own
    return [own[place * len(own) // client.tasks] for place in range(client.tasks)]


def purpose_of(task: Task, splits: SplitsSection) -> Purpose:
    """What a client with this training task does with it; the same at every client."""
    place = seed_of("purpose", task.env, task.id) / 2**63
    if place < splits.validation:
        return "validation"
    return "home" if place < splits.validation + splits.home else "train"
