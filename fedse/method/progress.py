"""How far the games of a client are, for those who watch."""

from collections.abc import Callable
from typing import Protocol

BETWEEN_TURNS = 5.0
"""Seconds."""


class GamesProgress(Protocol):
    """Told how many games have ended and succeeded, and how many turns the open ones have had."""

    def __call__(self, played: int, won: int, turn: int = 0, /) -> None: ...


def untold(played: int, won: int, turn: int = 0, /) -> None:
    """For games that nobody watches."""


def told_now_and_then(
    tell: Callable[[int, int, int], None], timer: Callable[[], float]
) -> GamesProgress:
    """Tells of every game that ended and, where turns take long, of turns in between."""
    told = 0, timer()

    def progress(played: int, won: int, turn: int = 0, /) -> None:
        nonlocal told
        if played != told[0] or timer() - told[1] >= BETWEEN_TURNS:
            told = played, timer()
            tell(played, won, turn)

    return progress
