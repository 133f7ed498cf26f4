"""How much noise a site's settings ask for, and what a round costs. Nothing depends on the data."""

import math

from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.privacy.accountant import Charge, noise_for


def steps_in(train: TrainSection, *, rate: float) -> int:
    """Optimiser steps of a private fit: exactly `steps`, or passes of 1/rate steps each."""
    if train.steps is not None:
        return train.steps
    # Rounded first: 2 passes at a rate of 0.1 are 20 steps, whatever 2 / 0.1 is in floats.
    whole = math.ceil(round((train.epochs or 0) / rate, 9))
    return min(whole, train.max_steps or whole)


def planned_steps(config: Config) -> int:
    """Steps of all rounds that epsilon is divided over; the later ones are as the last agreed."""
    rounds = config.privacy.rounds or max(1, config.run.last)
    return sum(
        steps_in(config.train_in(min(round, max(1, config.run.last))), rate=config.privacy.rate)
        for round in range(1, rounds + 1)
    )


def planned_noise(config: Config) -> float:
    """The noise of every step, in units of the clipping norm."""
    privacy = config.privacy
    given = config.step.noise if config.step.on else privacy.noise
    if given is not None:
        return given
    steps = planned_steps(config)
    return noise_for(privacy.epsilon or 0.0, privacy.delta, rate=privacy.rate, steps=steps)


def clip_of(config: Config) -> float:
    """The norm to which the gradient of a unit is shortened."""
    return config.step.clip if config.step.on else config.privacy.clip


def charge_of(config: Config, round: int, train: TrainSection) -> Charge:
    """What a fit of this round with these settings costs."""
    privacy = config.privacy
    # A private step is one release of the sum over all units.
    rate, steps = (1.0, 1) if config.step.on else (privacy.rate, steps_in(train, rate=privacy.rate))
    return Charge(config.run.name, round, privacy.unit, rate, planned_noise(config), steps)
