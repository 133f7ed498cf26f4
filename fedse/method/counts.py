"""A round's episodes as numbers: how they ended, how varied they were. No text comes out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log

from fedse.method.lessons import groups_of, mixed_groups
from fedse.types import ClientStats, Trajectory


def count_episodes(played: Sequence[Trajectory], *, new_tokens: int) -> ClientStats:
    """The counts and the variety of `played`; a client's other numbers are left at zero.

    A reply of `new_tokens` tokens counts as cut: where it ended by itself is known no longer.
    """
    outcomes = Counter(episode.outcome for episode in played)
    turns = [turn for episode in played for turn in episode.turns]
    return ClientStats(
        played=len(played),
        succeeded=outcomes["success"],
        broken=outcomes["broken"],
        truncated=outcomes["truncated"],
        replies=len(turns),
        unread=sum(episode.invalid_turns for episode in played),
        cut=sum(len(turn.action_ids) >= new_tokens for turn in turns),
        entropy=entropy(turn.action for turn in turns),
        distinct=distinct_share(played),
    )


def count_groups(played: Sequence[Trajectory]) -> dict[str, int]:
    """How many tasks were played more than once, and in how many of them rewards differ."""
    several = [games for games in groups_of(played).values() if len(games) > 1]
    return {"groups": len(several), "mixed": len(mixed_groups(played))}


def entropy(actions: Iterable[str]) -> float:
    """Shannon entropy in nats of how often each action text occurs; 0 for none or one."""
    counts = Counter(actions)
    total = counts.total()
    return sum(n / total * log(total / n) for n in sorted(counts.values()))


def distinct_share(played: Sequence[Trajectory]) -> float:
    """How many different sequences of actions there are, per episode; 0 without an episode."""
    sequences = {tuple(turn.action for turn in episode.turns) for episode in played}
    return len(sequences) / len(played) if played else 0.0
