"""The section [service] of a site's own file."""

from pathlib import Path

import pytest

from fedse.errors import ConfigError
from fedse_serve.settings import Metric, ServiceSettings, parse_settings, read_settings


def test_a_site_without_the_section_has_every_default(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('federation = "f"\n')
    settings = read_settings(tmp_path / "site.toml")
    assert settings == ServiceSettings()
    assert (settings.held_out, settings.retention_days, settings.sticky) == (0.2, 90, "session")
    assert settings.canary.shares == (0.05, 0.25, 1.0)


def test_the_section_is_read_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        "[service]\nheld_out = 0.5\n"
        '[service.metrics.rating]\ntype = "float"\nat_least = 4\n'
        '[service.verifiers.tests]\ncommand = ["true"]\n'
        "[service.canary]\nshares = [0.1, 1.0]\n"
    )
    settings = read_settings(tmp_path / "site.toml")
    assert settings.metrics == {"rating": Metric(type="float", at_least=4.0)}
    assert settings.verifiers["tests"].command == ("true",)
    assert settings.canary.shares == (0.1, 1.0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"held_uot": 0.1}, "service.held_uot is not a setting, did you mean 'held_out'?"),
        (
            {"metrics": {"a": {"type": "float", "atleast": 1}}},
            "service.metrics.a.atleast is not a setting, did you mean 'at_least'?",
        ),
        (
            {"verifiers": {"a": {"comand": ["x"]}}},
            "service.verifiers.a.comand is not a setting, did you mean 'command'?",
        ),
        ({"canary": {"alhpa": 0.1}}, "service.canary.alhpa is not a setting, did you mean 'alpha'"),
        ({"held_out": 1.5}, "service.held_out: input should be less than or equal to 1, got 1.5"),
        (
            {"metrics": {"a": {"type": "boolean", "at_least": 1}}},
            "at_least is for a metric of type",
        ),
        ({"metrics": {"a": {"type": "float", "success": True}}}, "success is for a metric of type"),
        ({"metrics": {"comment": {"type": "boolean"}}}, "the metric 'comment' is built in"),
        ({"verifiers": {"a": {}}}, "expected either function"),
        ({"verifiers": {"a": {"function": "judge"}}}, "must be \"module:function\", got 'judge'"),
        (
            {"metrics": {"a": {"type": "boolean"}}, "verifiers": {"a": {"command": ["x"]}}},
            "'a' is a metric and a verifier",
        ),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_settings(given, "site.toml")
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("metric", "value", "success"),
    [
        ({"type": "boolean"}, True, True),
        ({"type": "boolean"}, False, False),
        ({"type": "boolean", "success": False}, False, True),
        ({"type": "boolean", "success": False}, True, False),
        ({"type": "float", "at_least": 4}, 4.0, True),
        ({"type": "float", "at_least": 4}, 3.9, False),
        ({"type": "float", "at_most": 2}, 2.0, True),
        ({"type": "float", "at_least": 1, "at_most": 2}, 2.1, False),
    ],
)
def test_what_is_a_success(metric: dict[str, object], value: float, success: bool) -> None:
    made = Metric.model_validate(metric)
    assert made.decides
    assert made.judged(value) is success


def test_a_float_without_a_bound_decides_nothing() -> None:
    assert not Metric(type="float").decides
