"""A preset fills in what a file does not say, and nothing looser than it gets through."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedse.config.file import dump_config, parse_config, with_own_settings
from fedse.config.methods import with_settings
from fedse.config.presets import PRESETS, filled, written
from fedse.config.schema import Config
from fedse.errors import ConfigError
from tests.needs import needs

MEMBERS = "".join(f'\n[[clients]]\nname = "{name}"\nenv = "maze"\n' for name in "abcde")
names = pytest.mark.parametrize("name", PRESETS)


def read(name: str, more: str = "", *overrides: str) -> Config:
    return parse_config(f'{more}\n[privacy]\npreset = "{name}"\n{MEMBERS}', "file", overrides)


def value_of(config: Config, key: str) -> Any:
    section, _, setting = key.partition(".")
    return getattr(getattr(config, section), setting)


@names
def test_what_a_file_does_not_say_is_as_the_preset_has_it(name: str):
    preset, config = PRESETS[name], read(name)
    settings = {**preset.agreed, **preset.own, **preset.helps}
    assert {key: value_of(config, key) for key in settings} == settings


@names
def test_nothing_else_changes_and_a_run_folder_gives_it_back(name: str):
    preset, plain, config = PRESETS[name], parse_config(MEMBERS, "file"), read(name)
    back = with_settings(config, {"privacy.preset": None})
    for key in {**preset.agreed, **preset.own, **preset.helps}:
        back = back.model_copy(update={(section := key.partition(".")[0]): getattr(plain, section)})
    assert back == plain
    assert parse_config(dump_config(config), "run") == config


def test_each_is_at_least_as_strict_as_the_one_before():
    kinds = [{**preset.agreed, **preset.own} for preset in PRESETS.values()]
    for weaker, stricter in pairwise(kinds):
        assert weaker.items() <= stricter.items()


@pytest.mark.parametrize(
    ("name", "looser"),
    [(name, key) for name, one in PRESETS.items() for key in {**one.agreed, **one.own}],
)
def test_what_would_loosen_it_is_refused_and_named(name: str, looser: str):
    preset = PRESETS[name]
    value = {**preset.agreed, **preset.own}[looser]
    worse = {True: "false", False: "true", "none": "median", "subject": "episode"}
    other = worse[value] if isinstance(value, bool | str) else f"{1.01 * value}"
    with pytest.raises(ConfigError) as refused:
        read(name, "", f"{looser}={other}")
    assert f'privacy.preset = "{name}" needs {written(looser, value)}, got' in str(refused.value)
    assert "fedse privacy explain" in str(refused.value)


@given(st.floats(1e-3, 20), st.floats(1e-9, 1e-3))
def test_a_smaller_budget_is_the_sites_own_and_a_larger_one_is_refused(
    epsilon: float, delta: float
):
    given = (f"privacy.epsilon={epsilon!r}", f"privacy.delta={delta!r}")
    if epsilon <= 8 and delta <= 1e-5:
        assert read("patient-data", "", *given).privacy.epsilon == epsilon
    else:
        with pytest.raises(ConfigError, match="patient-data"):
            read("patient-data", "", *given)


def test_a_help_may_be_set_to_anything():
    assert read("patient-data", "", "train.factors=both").train.factors == "both"
    assert read("patient-data", "", "step.units=60").step.units == 60


def test_where_no_steps_are_taken_their_noise_is_not_agreed_on():
    """A site that names the preset later still agrees with the others."""
    apart = '[aggregate]\nsecure = true\nclip = "none"\n[train]\nfactors = "b"\n'
    plain = parse_config(f"{apart}{MEMBERS}", "file")
    named = read("patient-data", apart, "step.units=0")
    assert named.step == plain.step
    assert named.agreed_digest() == plain.agreed_digest()


def test_a_site_that_names_it_takes_the_steps_that_were_agreed(tmp_path: Path):
    agreed = read("patient-data", "", "step.units=60", "step.noise=4")
    own = tmp_path / "site.toml"
    own.write_text('[privacy]\npreset = "patient-data"\n')
    for one in (agreed, with_settings(agreed, {"step.units": 0, "step.noise": None})):
        assert with_own_settings(one, own).step == one.step


def test_the_strictest_has_a_bound_that_lasts_for_the_rounds_it_was_measured_in():
    needs("dp_accounting")
    from fedse.privacy.accountant import epsilon_of
    from fedse.privacy.plan import charge_of

    config = read("patient-data", "", "run.rounds=36")
    charges = [charge_of(config, round, config.train) for round in range(1, 38)]
    spent = [epsilon_of(charges[:rounds], delta=1e-5) for rounds in (36, 37)]
    assert spent[0] <= config.privacy.epsilon < spent[1]


def test_without_a_preset_a_file_means_what_it_always_did():
    raw = {"privacy": {"epsilon": 3.0}, "clients": [{"name": "a", "env": "maze"}]}
    assert filled(raw) == raw
    assert filled({"privacy": {"preset": "other"}}) == {"privacy": {"preset": "other"}}
    assert filled({"privacy": 1}) == {"privacy": 1}
    before = {"privacy": {"preset": "internal"}}
    assert filled(before)["redact"] == {"secrets": True}
    assert before == {"privacy": {"preset": "internal"}}


def test_all_sites_agree_on_what_it_does_to_all_and_on_no_more():
    customer = read("customer-data")
    summed = parse_config(f'[aggregate]\nsecure = true\nclip = "none"\n{MEMBERS}', "file")
    assert customer.agreed_digest() == summed.agreed_digest()
    assert read("internal").agreed_digest() == parse_config(MEMBERS, "file").agreed_digest()


def test_what_is_made_in_python_is_not_filled_in_but_refused():
    with pytest.raises(ValidationError, match=r"needs redact\.secrets = true, got false"):
        Config.model_validate(
            {"privacy": {"preset": "internal"}, "clients": [{"name": "a", "env": "maze"}]}
        )
