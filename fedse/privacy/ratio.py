"""What noise leaves of an update, before anything is trained: R = s N / (sigma sqrt(d)).

R is the length of the learned update over that of the noise in it. N units agree in s, the length
of the mean of their shortened gradients in units of the clip; sigma is the noise of one step that
all units take part in, in units of the clip; d numbers are learned. While s stays, R does not
depend on the number of steps: k of them sum up k gradients and noise of length sqrt(k), and need
sqrt(k) times the noise.
"""

from collections.abc import Callable
from math import sqrt

from fedse.config.combinable import least_in_sum
from fedse.privacy.accountant import noise_for

MOST_SITES = 10_000


def ratio(units: float, *, signal: float, noise: float, numbers: int) -> float:
    """R of one site, or of a sum over sites with one noise in it."""
    return signal * units / (noise * sqrt(numbers))


def in_one_step(noise: float, *, rate: float, steps: int) -> float:
    """The noise of one step of all units that leaves as much of an update as these steps."""
    return noise / (rate * sqrt(steps))


def of_mean(single: float, sites: int) -> float:
    """R of the mean over sites that each add noise to updates of the same direction."""
    return single * sqrt(sites)


def honest_left(sites: int) -> int:
    """Of those in a sum, how many are honest at least: more than two thirds of all answer, and
    fewer than a third of all are corrupt."""
    return least_in_sum(sites) - (sites - 1) // 3


def shared_noise(epsilon: float, delta: float, *, sites: int) -> float:
    """Of a sum in which every site adds its share: the honest that are left add up to enough."""
    enough = noise_for(epsilon, delta, rate=1.0, steps=1)
    return enough * sqrt(sites / honest_left(sites))


def sites_for(enough: float, at: Callable[[int], float], *, least: int = 1) -> int | None:
    """From how many sites on R is at least `enough`; None = not with MOST_SITES.

    How many may be corrupt rises with every third site, so three in a row are looked at.
    """

    def lasts(sites: int) -> bool:
        return all(at(sites + more) >= enough for more in range(3))

    return next((sites for sites in range(least, MOST_SITES) if lasts(sites)), None)
