"""What noisy steps leave to any attack that asks whether a unit was learned from.

An epsilon alone says little: 8 allows much less where every step draws a tenth of the units than
where it takes all. These bounds hold for every attack, also for one that knows everything else.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fedse.privacy.accountant import Charge, Spent, losses_of, spent_by

FALSE_ALARMS = 0.01
LARGEST, LOSSES, RATES = 12.0, 61, 2001
"""Epsilons from 0 to the largest at which the trade-off is looked up, and rates of false alarms;
e^-12 is far below any such rate."""


class AttackBounds(NamedTuple):
    """The most that any attack can reach."""

    auc: float
    """The chance to tell a unit that was learned from from one that was not; 0.5 = a guess."""
    found: float
    """The share of the learned units that it names, if it is wrong about FALSE_ALARMS of others."""


ALL = AttackBounds(1.0, 1.0)


def attack_bounds(charges: Iterable[Charge]) -> AttackBounds:
    """Of all these steps together."""
    spent = spent_by(charges)
    if spent is None:
        return ALL
    return _bounds(spent) if spent else AttackBounds(0.5, FALSE_ALARMS)


@lru_cache(maxsize=64)
def _bounds(spent: Spent) -> AttackBounds:
    """From delta(epsilon): true alarms <= e^epsilon false alarms + delta, and so from behind."""
    accountant = losses_of(spent)
    if accountant is None:
        return ALL
    losses = np.linspace(0.0, LARGEST, LOSSES)[:, None]
    deltas = np.array([accountant.get_delta(loss) for loss in losses.ravel()])[:, None]
    wrong = np.linspace(0.0, 1.0, RATES)
    forwards = np.exp(losses) * wrong + deltas
    backwards = 1.0 - np.exp(-losses) * (1.0 - wrong - deltas)
    right = np.minimum(forwards, backwards).min(axis=0).clip(0.0, 1.0)
    area = float(((right[1:] + right[:-1]) / 2 * np.diff(wrong)).sum())
    return AttackBounds(area, float(np.interp(FALSE_ALARMS, wrong, right)))
