"""What a worker says while it opens its site, so that one that is slow does not look stuck."""

from collections.abc import Callable

from fedse.types import Clock

SAY_SECONDS = 10.0


class OpeningLog:
    """Says what is being done, at once and then at most every SAY_SECONDS, until it is over."""

    def __init__(self, client: str, say: Callable[[str], None], clock: Clock) -> None:
        self._client, self._say, self._clock = client, say, clock
        self._moves, self._next, self._over = 0, clock() + SAY_SECONDS, False
        say(f"{client}: loading the base model and opening the buffer")

    def beat(self) -> None:
        """A move of a demonstration was made."""
        self._moves += 1
        if not self._over and self._clock() >= self._next:
            self._next = self._clock() + SAY_SECONDS
            self._say(f"{self._client}: playing demonstrations, {self._moves} moves so far")

    def end(self) -> None:
        """The site is open; later beats say nothing."""
        self._over = True
