"""Which episodes are worth learning from: Trajectory in, Trajectory out, nothing invented."""

from collections.abc import Callable, Mapping, Sequence

from fedse import plugins
from fedse.plugins import Variants
from fedse.types import Trajectory

Select = Callable[[Sequence[Trajectory]], tuple[Trajectory, ...]]


def successes(played: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
    """The paper's filter: D_succ = { tau : R(tau) = 1 }."""
    return tuple(episode for episode in played if episode.success)


def everything(played: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
    """The paper's no-filter ablation: every episode the agent could act in."""
    return tuple(episode for episode in played if episode.turns and episode.outcome != "broken")


SELECTS: Mapping[str, Select] = Variants(plugins.SELECTS, {"success": successes, "all": everything})
