"""Which episodes are worth learning from: Trajectory in, Trajectory out.

A rule takes the round's episodes. A rule with a parameter `record` is also given what the client
has on record of earlier rounds; nothing of it leaves the client. The model `Options` of a rule, if
it has one, checks `select.options`.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple, Protocol, cast

from fedse import plugins
from fedse.config.schema import Config
from fedse.envs.base import EnvFactory
from fedse.method.site import Site
from fedse.plugins import Variants
from fedse.store.buffer import Tally
from fedse.types import Task, Trajectory


class OwnRecord(NamedTuple):
    """What a client can look up when it chooses what to learn from."""

    options: Mapping[str, Any]
    """`select.options`."""
    tallies: Mapping[Task, Tally]
    """How often each training task was tried and succeeded, including this round."""
    kept: Mapping[Task, frozenset[str]]
    """Content digests of the episodes chosen in earlier rounds, by task."""
    make_env: EnvFactory
    """Makes the client's environment; the caller must close it."""
    tasks: Sequence[Task]
    """The client's own training tasks."""


ROLE_SUCCESS = 1.0
"""The reward of its own that is a role's success, or more."""
Select = Callable[[Sequence[Trajectory]], tuple[Trajectory, ...]]


class SelectByRecord(Protocol):
    """A rule that also looks at the client's record."""

    def __call__(
        self, played: Sequence[Trajectory], /, *, record: OwnRecord
    ) -> tuple[Trajectory, ...]: ...


def successes(played: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
    """The paper's filter: D_succ = { tau : R(tau) = 1 }.

    A role with a reward of its own is learned from if that is a success, whatever the episode is.
    """
    return tuple(kept for episode in played if (kept := _succeeded(episode)) is not None)


def _succeeded(episode: Trajectory) -> Trajectory | None:
    """The episode as a lesson of those who succeeded in it; None if nobody did."""
    own = {role: reward >= ROLE_SUCCESS for role, reward in episode.role_rewards}
    if not own or episode.outcome == "broken":
        return episode if episode.success else None
    turns = tuple(
        turn if own.get(turn.role, episode.success) else turn.model_copy(update={"learned": False})
        for turn in episode.turns
    )
    kept = episode.model_copy(update={"turns": turns})
    return kept if any(turn.learned for turn in turns) else None


def everything(played: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
    """The paper's no-filter ablation: every episode the agent could act in."""
    return tuple(episode for episode in played if episode.turns and episode.outcome != "broken")


SELECTS: Mapping[str, Select | SelectByRecord] = Variants(
    plugins.SELECTS,
    {"success": successes, "all": everything},
)


def select_lessons(
    played: Sequence[Trajectory], site: Site, config: Config, *, round: int
) -> tuple[Trajectory, ...]:
    """What this round's episodes add to the buffer, by the rule of the settings."""
    rule = SELECTS[config.select.type]
    if "record" not in signature(rule).parameters:
        return cast(Select, rule)(played)
    record = OwnRecord(
        config.select.options,
        _tallies(played, site.buffer.tallies(config.run.name, before=round)),
        site.buffer.kept_by_task(config.run.name, before=round),
        site.make_env,
        site.tasks("train"),
    )
    return cast(SelectByRecord, rule)(played, record=record)


def _tallies(played: Sequence[Trajectory], earlier: Mapping[Task, Tally]) -> Mapping[Task, Tally]:
    """Those of earlier rounds and of `played`; a broken episode does not count as a try."""
    tallies = dict(earlier)
    for episode in played:
        if episode.outcome != "broken":
            tries, won = tallies.get(episode.task, Tally(0, 0))
            tallies[episode.task] = Tally(tries + 1, won + episode.success)
    return tallies
