"""Who takes part: what one client owns, and what the server holds of a client's reply."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from fedse.agent.policy import Policy
from fedse.config.schema import TrainSection
from fedse.envs.base import Env, EnvFactory
from fedse.errors import EnvError, boundary
from fedse.method.rollout import Game, rollout
from fedse.store.buffer import Buffer
from fedse.types import (
    Adapter,
    AdapterSpec,
    ClientStats,
    Exclusion,
    Fitted,
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
        progress: Callable[[int, int], None] = ...,
    ) -> list[Trajectory]: ...


@dataclass(frozen=True)
class Site:
    """What one client owns and nobody else sees."""

    client: str
    spec: AdapterSpec
    make_env: EnvFactory
    tasks: Callable[[Split], Sequence[Task]]
    """The client's own tasks; the held-out ones are never trained on."""
    buffer: Buffer
    make_policy: Callable[[Adapter, float], Policy]
    """Adapter and temperature -> something that acts."""
    fit: Callable[[Adapter, Sequence[Trajectory], TrainSection, int], Fitted]
    """Starting adapter, lessons, settings and seed -> the adapter after training."""
    clock: Callable[[], float]
    play: Play = rollout
    """We step the environment, unless the client's program owns the loop."""
    prepare: Callable[[Iterable[Trajectory]], list[Trajectory]] = list
    """Lessons as any site of the same base model could learn from them."""
    home: Path | None = None
    """The client's own folder, where its ledger is kept; None = it keeps none."""
    check: str = ""
    """What to do when the client's episodes break; the environment is named as in the config."""


class Answer(NamedTuple):
    """What the server has of one client's reply."""

    client: str
    stats: ClientStats
    read: Callable[[], bytes] | None
    """Gives the adapter's bytes; None = the client has no vote."""


class Merged(NamedTuple):
    """The next global adapter and whose work it is."""

    adapter: Adapter
    voters: tuple[str, ...]
    abstained: tuple[str, ...]
    excluded: tuple[Exclusion, ...]


def tasks_of(env: Env, part: tuple[int, int] | None, split: Split) -> Sequence[Task]:
    """The tasks of a split; of the training ones only the client's part. All share the test."""
    with boundary(EnvError, f"{env.name}.tasks({split!r})"):
        tasks = env.tasks(split)
    if part is None or split == "test":
        return tasks
    first, step = part
    own = tasks[first - 1 :: step]
    if not own:
        raise EnvError(
            f"{env.name} has {len(tasks)} training tasks, part {first} of {step} is empty"
        )
    return own
