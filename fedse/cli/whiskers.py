"""Dot-and-whisker plots in text: estimates with their intervals, on one common axis."""

from collections.abc import Iterable
from math import ceil, floor
from typing import NamedTuple

STEPS = (0.05, 0.1, 0.2, 0.25, 0.5)
TICK = 8
"""Columns a tick's number needs with space around it."""


class Signs(NamedTuple):
    left: str
    line: str
    dot: str
    right: str
    zero: str
    crossed: str
    """Zero inside the interval."""


UNICODE = Signs("├", "─", "●", "┤", "│", "┼")
ASCII = Signs("[", "-", "o", "]", "|", "+")


class Axis(NamedTuple):
    """Numbers from `low` to `high` over `width` columns."""

    low: float
    high: float
    width: int
    step: float

    def column(self, number: float) -> int:
        place = (number - self.low) / (self.high - self.low) * (self.width - 1)
        return min(self.width - 1, max(0, round(place)))

    @property
    def ticks(self) -> list[float]:
        first = ceil(self.low / self.step - 1e-9)
        last = floor(self.high / self.step + 1e-9)
        return [number * self.step for number in range(first, last + 1)]


def axis_over(numbers: Iterable[float], width: int) -> Axis:
    """An axis just wide enough for all of these, with round numbers on it."""
    values, grid = [*numbers], STEPS[0]
    low, high = floor(min(values) / grid + 1e-9), ceil(max(values) / grid - 1e-9)
    high = max(high, low + 1)
    apart = (high - low) * grid * TICK / width
    step = next((step for step in STEPS if step >= apart), STEPS[-1])
    return Axis(low * grid, high * grid, width, step)


def tick_line(axis: Axis, *, signed: bool = False) -> str:
    """The axis' numbers, each over its column."""
    line = [" "] * axis.width
    digits = 1 if round(axis.step * 10, 6).is_integer() else 2
    for tick in axis.ticks:
        text = f"{tick:{'+' if signed else ''}.{digits}f}" if abs(tick) > axis.step / 2 else "0"
        start = min(axis.column(tick) - len(text) // 2, axis.width - len(text))
        line[max(0, start) : max(0, start) + len(text)] = text
    return "".join(line).rstrip()


def whisker(
    axis: Axis, value: float, low: float, high: float, signs: Signs, *, zero: bool = False
) -> str:
    """The interval as a line, its ends marked, the estimate as a dot; with `zero` also where 0 is.

    In a shared column the dot hides the ends, the ends hide the zero line, the zero line the rest.
    """
    line = [" "] * axis.width
    left, right = axis.column(low), axis.column(high)
    line[left : right + 1] = signs.line * (right - left + 1)
    if zero:
        line[axis.column(0)] = signs.crossed if low <= 0 <= high else signs.zero
    line[left], line[right] = signs.left, signs.right
    line[axis.column(value)] = signs.dot
    return "".join(line).rstrip()
