"""Does a client do better in the federation than alone? Both play the same held-out games."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fedse.errors import StoreError
from fedse.results.held_out import HeldOutGame, games, require_same_games
from fedse.stats.paired import Differences, paired_differences
from fedse.stats.rates import Rate

Games = Mapping[str, list[HeldOutGame]]


class SeedRuns(NamedTuple):
    """The runs of one seed: of all clients together, and of each alone, by its name."""

    together: Path
    alone: Mapping[str, Path]


class TogetherOrAlone(NamedTuple):
    """Each client's success with the common adapter and with the one it trained alone."""

    together: dict[str, Rate]
    alone: dict[str, Rate]
    difference: Differences
    """Together minus alone: per client under `groups`, and over all games."""


def together_or_alone(*seeds: SeedRuns, at: str | None = None) -> TogetherOrAlone:
    """The last adapters compared game by game, over all seeds.

    Each client's own games count or, if `at` names a newcomer, those that the newcomer played with
    the adapter of each client. With one seed the interval is about these adapters; with several,
    about the two methods.
    """
    pairs = [_games_of(runs, at) for runs in seeds]
    mine, own = ([pair[side] for pair in pairs] for side in (0, 1))
    difference = paired_differences(_blocks(mine), _blocks(own), seed=0)
    return TogetherOrAlone(_rates(mine), _rates(own), difference)


def _games_of(runs: SeedRuns, at: str | None) -> tuple[Games, Games]:
    """What both played with the same seed, by client; refused unless the games are the same."""
    together, alone = runs
    if not alone:
        raise StoreError("expected a run of at least one client alone, got none")
    shared = games(together)
    place = {client: at or client for client in sorted(alone)}
    lacking = sorted({*place.values()} - shared.keys())
    if lacking:
        raise StoreError(f"run {together.name} did not measure {', '.join(lacking)}")
    mine = {client: shared[where] for client, where in place.items()}
    own = {client: games(alone[client])[where] for client, where in place.items()}
    require_same_games(mine, own, names=(together.name, "alone"))
    return mine, own


def _rates(seeds: Sequence[Games]) -> dict[str, Rate]:
    return {
        client: Rate(sum(map(sum, blocks)), sum(map(len, blocks)))
        for client, blocks in _blocks(seeds).items()
    }


def _blocks(seeds: Sequence[Games]) -> dict[str, list[list[bool]]]:
    """Client -> per seed, whether each game was won."""
    return {
        client: [[game.success for game in played[client]] for played in seeds]
        for client in seeds[0]
    }
