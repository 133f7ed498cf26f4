"""The same held-out game before the first round, after the last one, and by a site alone."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fedse.exports.episodes import StoredEpisode


class BeforeAfter(NamedTuple):
    """One game, played by several adapters."""

    before: StoredEpisode
    alone: StoredEpisode | None
    """By the adapter that the site trained alone; None = it did not play this game."""
    after: StoredEpisode

    def played(self) -> Iterator[StoredEpisode]:
        """The games there are, in the order in which they are shown."""
        return (episode for episode in self if episode is not None)


def before_and_after(
    episodes: Sequence[StoredEpisode], alone: Sequence[StoredEpisode] = ()
) -> BeforeAfter | None:
    """The first game in which the last adapter succeeded, and neither the first nor a lone one did.

    If there is none, the first game that was learned, else the first game; None = no game was
    played by both the first and the last adapter.
    """
    held_out = [episode for episode in episodes if episode.game.split == "test"]
    rounds = [episode.game.round for episode in held_out]
    ends, lone = _ends(held_out), _ends(alone)
    pairs = [
        BeforeAfter(episode, lone.get(_place(episode)), ends[_place(episode)])
        for episode in held_out
        if episode.game.round == min(rounds) < max(rounds) and _place(episode) in ends
    ]
    learned = [pair for pair in pairs if not _won(pair.before) and _won(pair.after)]
    owed = [pair for pair in learned if pair.alone is not None and not _won(pair.alone)]
    return next(iter([*owed, *learned, *pairs]), None)


def _ends(episodes: Sequence[StoredEpisode]) -> dict[tuple[str, int], StoredEpisode]:
    """The held-out games of the last measurement by client and position."""
    held_out = [episode for episode in episodes if episode.game.split == "test"]
    last = max((episode.game.round for episode in held_out), default=0)
    return {_place(episode): episode for episode in held_out if episode.game.round == last}


def _place(episode: StoredEpisode) -> tuple[str, int]:
    return episode.source.client, episode.game.position


def _won(episode: StoredEpisode) -> bool:
    return episode.game.outcome == "success"
