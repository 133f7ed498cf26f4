"""Success rates and their intervals: per client, per environment, over all.

Intervals are 95 % unless `z` says otherwise. Episodes are taken as independent; the same games
played by two adapters are not, so the interval of their difference is on the wide side.
"""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from fedse.config.schema import Config
from fedse.types import ClientStats

Z_95 = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


class Interval(NamedTuple):
    low: float
    high: float


class Rate(NamedTuple):
    """`successes` out of `n` episodes."""

    successes: int
    n: int

    @property
    def value(self) -> float:
        """The share of successes; nan without episodes."""
        return self.successes / self.n if self.n else float("nan")

    @property
    def interval(self) -> Interval:
        return wilson(self.successes, self.n)


class Mean(NamedTuple):
    """The unweighted mean of several rates."""

    value: float
    interval: Interval


def wilson(successes: int, n: int, z: float = Z_95) -> Interval:
    """Score interval of a proportion (Wilson 1927); without an episode everything is possible."""
    _require_counts(successes, n)
    if n == 0:
        return Interval(0.0, 1.0)
    p, z2 = successes / n, z * z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    # Exact at the ends, where rounding would leave 1e-17.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Interval(low, high)


def newcombe(s1: int, n1: int, s2: int, n2: int, z: float = Z_95) -> Interval:
    """Interval of p1 - p2 for two independent proportions (Newcombe 1998, method 10)."""
    first, second = wilson(s1, n1, z), wilson(s2, n2, z)
    if n1 == 0 or n2 == 0:
        return Interval(-1.0, 1.0)
    p1, p2 = s1 / n1, s2 / n2
    below = sqrt((p1 - first.low) ** 2 + (second.high - p2) ** 2)
    above = sqrt((first.high - p1) ** 2 + (p2 - second.low) ** 2)
    return Interval(p1 - p2 - below, p1 - p2 + above)


def change(before: Rate, after: Rate, z: float = Z_95) -> Interval:
    """Interval of how much the success rate grew."""
    return newcombe(after.successes, after.n, before.successes, before.n, z)


PLACES: Mapping[str, Callable[[ClientStats], Rate]] = {
    "test": lambda stats: Rate(stats.eval_succeeded, stats.eval_played),
    "test-personal": lambda stats: Rate(stats.personal_succeeded, stats.personal_played),
    "home": lambda stats: Rate(stats.home_succeeded, stats.home_played),
    "home-personal": lambda stats: Rate(stats.personal_home_succeeded, stats.personal_home_played),
}
"""Whose games an evaluation counts: in tasks that nobody has, and at home in the client's own; by
the global adapter, and by the client's personal one."""


def rates(evals: Mapping[str, ClientStats], place: str = "test") -> dict[str, Rate]:
    """Each client's held-out rate, from `run.evals(round)`; clients without an episode left out."""
    found = {client: PLACES[place](stats) for client, stats in evals.items()}
    return {client: rate for client, rate in found.items() if rate.n}


def by_env(client_rates: Mapping[str, Rate], config: Config) -> dict[str, Rate]:
    """The episodes of all clients of an environment together, environments in order of name."""
    env_of = {client.name: client.env for client in config.clients}
    envs = sorted({env_of[client] for client in client_rates})
    return {
        env: micro([rate for client, rate in client_rates.items() if env_of[client] == env])
        for env in envs
    }


def micro(parts: Sequence[Rate]) -> Rate:
    """All episodes together: a part with more episodes counts more."""
    return Rate(sum(rate.successes for rate in parts), sum(rate.n for rate in parts))


def macro(parts: Sequence[Rate]) -> Mean:
    """The mean of the rates: every client or environment counts the same.

    The interval combines the Wilson limits of the parts as Newcombe does for two (MOVER, Zou and
    Donner 2008).
    """
    if not parts:
        return Mean(float("nan"), Interval(0.0, 1.0))
    k = len(parts)
    value = sum(rate.value for rate in parts) / k
    below = sqrt(sum((rate.value - rate.interval.low) ** 2 for rate in parts)) / k
    above = sqrt(sum((rate.interval.high - rate.value) ** 2 for rate in parts)) / k
    return Mean(value, Interval(value - below, value + above))


def _require_counts(successes: int, n: int) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"expected 0 <= successes <= n, got {successes} of {n}")
