"""A sequence whose values are made when they are looked at."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar, overload

V = TypeVar("V")


class Lazy(Sequence[V]):
    """`make(place)` for every place, when it is looked at; the last `remembered` are kept."""

    def __init__(self, length: int, make: Callable[[int], V], *, remembered: int = 0) -> None:
        self._length = length
        self._make = lru_cache(maxsize=remembered)(make) if remembered else make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> V: ...
    @overload
    def __getitem__(self, place: slice) -> list[V]: ...
    def __getitem__(self, place: int | slice) -> V | list[V]:
        # A range knows which places there are, counted from either end.
        places = range(self._length)[place]
        return self._make(places) if isinstance(places, int) else [self._make(i) for i in places]
