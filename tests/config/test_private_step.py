"""A private step: what must go with it, what is refused with it, and rounds without games."""

import pytest
from pydantic import ValidationError

from fedse.config.combinable import USUAL_NOISE
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from tests.needs import needs

STEPS = Config.model_validate(
    {
        "run": {"rounds": 36},
        "train": {"factors": "b"},
        "aggregate": {"secure": True, "clip": "none"},
        "step": {"units": 1000, "noise": USUAL_NOISE},
        "privacy": {"epsilon": 8.0},
        "clients": [{"name": name, "env": "maze"} for name in "abcde"],
    }
)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"aggregate.secure": False}, "aggregate.secure = true"),
        ({"step.noise": None}, "step.noise, such as 3.61"),
        ({"privacy.noise": 2.0}, "privacy.noise unset"),
        ({"train.loss": "fedse.train.loss:Loss"}, 'train.loss = "sft"'),
        ({"select.type": "fedse.method.select:successes"}, 'select.type = "success"'),
        ({"aggregate.step": 2.0}, "aggregate.step = 1"),
    ],
)
def test_what_voids_the_bound_or_has_no_meaning_is_refused(settings: dict, reason: str):
    """Also where there is no budget, as at the coordinator's."""
    without = {"privacy.epsilon": None, **settings}
    with pytest.raises(ValidationError, match=f"step.units needs {reason}"):
        with_settings(STEPS, without)
    assert with_settings(STEPS, {"step.units": 0, **without})


def test_what_goes_with_it():
    allowed = {
        "gate.episodes": 4,
        "gate.liars": 0,
        "splits.validation": 0.2,
        "personal.steps": 10,
        "personal.every": 6,
        "rollout.every": 6,
        "schedule.news": 4,
        "warmstart.rounds": 2,
        "run.rounds": "open",
        "privacy.unit": "subject",
        "privacy.counts": True,
        "step.momentum": 0.9,
    }
    assert with_settings(STEPS, allowed).step.on


def test_all_members_agree_on_the_step_and_each_has_a_budget_of_its_own():
    assert with_settings(STEPS, {"step.clip": 0.2}).agreed_digest() != STEPS.agreed_digest()
    own = with_settings(STEPS, {"privacy.epsilon": 3.0})
    assert own.agreed_digest() == STEPS.agreed_digest()
    # The coordinator has none.
    assert with_settings(STEPS, {"privacy.epsilon": None}).step.on


def test_the_noise_that_is_named_is_enough():
    needs("dp_accounting")
    from fedse.privacy.accountant import epsilon_of
    from fedse.privacy.plan import charge_of, clip_of, planned_noise

    rounds = [charge_of(STEPS, round, STEPS.train_in(round)) for round in range(1, 37)]
    assert {(one.rate, one.noise, one.steps) for one in rounds} == {(1.0, USUAL_NOISE, 1)}
    assert 7.9 < epsilon_of(rounds, delta=1e-5) <= 8.0
    assert (planned_noise(STEPS), clip_of(STEPS)) == (USUAL_NOISE, STEPS.step.clip)


@pytest.mark.parametrize("wrong", [{"clip": 0}, {"units": -1}, {"momentum": 1.0}, {"lr": 0}])
def test_numbers_without_a_meaning_are_refused(wrong: dict[str, float]):
    with pytest.raises(ValidationError):
        with_settings(STEPS, {f"step.{key}": value for key, value in wrong.items()})


@pytest.mark.parametrize(
    ("every", "warm", "playing"),
    [(1, 0, [1, 2, 3, 4, 5, 6, 7]), (3, 0, [1, 4, 7]), (3, 2, [3, 6]), (9, 1, [2])],
)
def test_games_are_played_in_every_nth_round_after_the_warm_start(every, warm, playing):
    config = with_settings(STEPS, {"rollout.every": every, "warmstart.rounds": warm})
    assert [r for r in range(1, 8) if config.episodes_in(r)] == playing
    assert {config.episodes_in(r) for r in playing} == {config.rollout.episodes}


def test_rounds_without_games_need_something_to_learn_from():
    with pytest.raises(ValidationError, match=r"rollout\.every above 1 needs buffer\.history"):
        with_settings(STEPS, {"rollout.every": 2, "buffer.history": "round"})
