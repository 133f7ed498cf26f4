"""Settings that would void a privacy guarantee are refused together with it."""

import pytest
from pydantic import ValidationError

from fedse.config.methods import with_settings
from fedse.config.schema import Config

PRIVATE = Config.model_validate(
    {
        "privacy": {"epsilon": 3.0},
        "clients": [{"name": name, "env": "maze"} for name in "abcde"],
    }
)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"train.loss": "fedse.train.loss:Loss"}, "depend on others"),
        ({"train.batches": "by-length"}, "random sample"),
        ({"select.type": "fedse.method.select:successes"}, "one unit decides"),
        ({"aggregate.type": "weighted"}, "the weight is a count"),
        ({"buffer.pooled": True}, "buffer.pooled"),
        ({"trainer.processes": 2}, "trainer.processes"),
    ],
)
def test_what_voids_the_guarantee_is_refused(settings: dict[str, object], reason: str):
    with pytest.raises(ValidationError, match=f"privacy.epsilon needs.*{reason}"):
        with_settings(PRIVATE, settings)
    with_settings(PRIVATE, {"privacy.epsilon": None, **settings})


def test_what_only_works_on_what_has_noise_already_is_allowed():
    allowed = {
        "train.optimizer": "kept",
        "train.factors": "b",
        "select.type": "all",
        "personal.steps": 10,
        "buffer.demonstrations": 5,
    }
    assert with_settings(PRIVATE, allowed).privacy.on
    assert with_settings(PRIVATE, {"aggregate.type": "weighted", "privacy.counts": True})


def test_members_need_not_agree_on_it():
    assert PRIVATE.agreed_digest() == with_settings(PRIVATE, {"privacy.epsilon": 1}).agreed_digest()


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"delta": 1}, {"rate": 0}, {"rate": 1.1}])
def test_numbers_without_a_meaning_are_refused(wrong: dict[str, float]):
    with pytest.raises(ValidationError):
        with_settings(PRIVATE, {f"privacy.{key}": value for key, value in wrong.items()})
