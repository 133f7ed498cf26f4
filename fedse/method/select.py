"""Which episodes are worth learning from: Trajectory in, Trajectory out.

A rule takes the round's episodes. A rule with a parameter `record` is also given what the client
has on record of earlier rounds; nothing of it leaves the client.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import NamedTuple, Protocol, cast

from fedse import plugins
from fedse.config.schema import Config, SelectSection
from fedse.method.hindsight import relabeller
from fedse.method.site import Site
from fedse.plugins import Variants
from fedse.store.buffer import Tally
from fedse.types import Task, Trajectory


class OwnRecord(NamedTuple):
    """What a client can look up when it chooses what to learn from."""

    settings: SelectSection
    tallies: Mapping[Task, Tally]
    """How often each training task was tried and won, the present round included."""
    kept: Mapping[Task, frozenset[str]]
    """Content digests of the episodes that earlier rounds chose, by task."""
    relabel: Callable[[Trajectory], Trajectory | None]
    """An episode under another training goal, one that it did reach; None = it reached none."""


Select = Callable[[Sequence[Trajectory]], tuple[Trajectory, ...]]


class SelectByRecord(Protocol):
    """A rule that looks at the client's record too."""

    def __call__(
        self, played: Sequence[Trajectory], /, *, record: OwnRecord
    ) -> tuple[Trajectory, ...]: ...


def successes(played: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
    """The paper's filter: D_succ = { tau : R(tau) = 1 }."""
    return tuple(episode for episode in played if episode.success)


def everything(played: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
    """The paper's no-filter ablation: every episode the agent could act in."""
    return tuple(episode for episode in played if episode.turns and episode.outcome != "broken")


def frontier(played: Sequence[Trajectory], *, record: OwnRecord) -> tuple[Trajectory, ...]:
    """Successes in tasks that are neither always nor never won, `select.per_task` of each at most.

    A task with fewer than `select.tries` games counts as not always won: too little is known of it.
    Source: dropping prompts that are all wrong or all right (Reinforce-Rej, arXiv 2504.11343).
    """
    settings = record.settings
    kept = {task: set(digests) for task, digests in record.kept.items()}
    chosen: list[Trajectory] = []
    for episode in successes(played):
        tally, own = record.tallies[episode.task], kept.setdefault(episode.task, set())
        if tally.won == tally.tries >= settings.tries:
            continue
        digest = episode.content_digest
        if digest in own or settings.per_task is None or len(own) < settings.per_task:
            own.add(digest)
            chosen.append(episode)
    return tuple(chosen)


def hindsight(played: Sequence[Trajectory], *, record: OwnRecord) -> tuple[Trajectory, ...]:
    """Successes, and the other episodes under a goal they did reach, where the world can name one.

    Source: hindsight experience replay (arXiv 1707.01495), for language agents AgentHER
    (arXiv 2603.21357).
    """
    lessons = (e if e.success else record.relabel(e) for e in everything(played))
    return tuple(lesson for lesson in lessons if lesson is not None)


SELECTS: Mapping[str, Select | SelectByRecord] = Variants(
    plugins.SELECTS,
    {"success": successes, "all": everything, "frontier": frontier, "hindsight": hindsight},
)


def select_lessons(
    played: Sequence[Trajectory], site: Site, config: Config, *, round: int
) -> tuple[Trajectory, ...]:
    """What this round's episodes add to the buffer, by the rule of the settings."""
    rule = SELECTS[config.select.type]
    if "record" not in signature(rule).parameters:
        return cast(Select, rule)(played)
    with relabeller(site) as relabel:
        record = OwnRecord(
            config.select,
            _tallies(played, site.buffer.tallies(config.run.name, before=round)),
            site.buffer.kept_by_task(config.run.name, before=round),
            relabel,
        )
        return cast(SelectByRecord, rule)(played, record=record)


def _tallies(played: Sequence[Trajectory], earlier: Mapping[Task, Tally]) -> Mapping[Task, Tally]:
    """Those of earlier rounds and of `played`; a broken episode is no try."""
    tallies = dict(earlier)
    for episode in played:
        if episode.outcome != "broken":
            tries, won = tallies.get(episode.task, Tally(0, 0))
            tallies[episode.task] = Tally(tries + 1, won + episode.success)
    return tallies
