"""The same held-out game before the first round and after the last one."""

from collections.abc import Sequence
from typing import NamedTuple

from fedse.exports.episodes import StoredEpisode


class BeforeAfter(NamedTuple):
    """One game, played twice."""

    before: StoredEpisode
    after: StoredEpisode


def before_and_after(episodes: Sequence[StoredEpisode]) -> BeforeAfter | None:
    """The first game in which the last adapter succeeded and the first one did not.

    If there is none, the first game; None = no game was played by both.
    """
    held_out = [episode for episode in episodes if episode.game.split == "test"]
    rounds = [episode.game.round for episode in held_out]
    ends = {_place(e): e for e in held_out if e.game.round == max(rounds)}
    pairs = [
        BeforeAfter(episode, ends[_place(episode)])
        for episode in held_out
        if episode.game.round == min(rounds) < max(rounds) and _place(episode) in ends
    ]
    return next((pair for pair in pairs if _learned(pair)), pairs[0] if pairs else None)


def _place(episode: StoredEpisode) -> tuple[str, int]:
    return episode.source.client, episode.game.position


def _learned(pair: BeforeAfter) -> bool:
    return pair.before.game.outcome != "success" == pair.after.game.outcome
