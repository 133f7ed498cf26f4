"""What a round costs follows from the settings alone."""

import pytest

from tests.needs import needs

needs("dp_accounting")

from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.privacy.accountant import epsilon_of, is_within
from fedse.privacy.plan import charge_of, planned_noise, planned_steps, steps_in


def config(**privacy: object) -> Config:
    return Config.model_validate(
        {
            "run": {"rounds": 4},
            "train": {"epochs": 2, "max_steps": 15},
            "warmstart": {"rounds": 1, "steps": 30},
            "privacy": {"epsilon": 4.0, "rate": 0.1, **privacy},
            "clients": [{"name": "a", "env": "maze"}],
        }
    )


@pytest.mark.parametrize(
    ("train", "rate", "steps"),
    [
        ({"epochs": 2}, 0.1, 20),
        ({"epochs": 2}, 0.3, 7),
        ({"epochs": 2, "max_steps": 5}, 0.1, 5),
        ({"steps": 9}, 0.1, 9),
        ({"epochs": 1}, 1.0, 1),
    ],
)
def test_a_pass_is_one_over_the_rate_steps(train: dict[str, int], rate: float, steps: int):
    assert steps_in(TrainSection(**train), rate=rate) == steps


def test_all_rounds_are_planned_for_the_warm_start_included():
    assert planned_steps(config()) == 30 + 3 * 15
    assert planned_steps(config(rounds=6)) == 30 + 5 * 15
    assert planned_steps(config(rounds=1)) == 30


def test_epsilon_lasts_for_the_planned_rounds_and_for_no_more():
    planned = config()
    costs = [charge_of(planned, round, planned.train_in(round)) for round in (1, 2, 3, 4, 4)]
    assert is_within(4.0, epsilon_of(costs[:4], delta=1e-5))
    assert not is_within(4.0, epsilon_of(costs, delta=1e-5))


def test_noise_that_is_given_counts_as_given():
    assert planned_noise(config(noise=7.5)) == 7.5
    assert planned_noise(config(rounds=8)) > planned_noise(config())
