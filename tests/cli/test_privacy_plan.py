"""`fedse privacy plan`: the ratios of the settings that were measured, and what is missing."""

import json
from pathlib import Path

import pytest

from tests.needs import needs

needs("dp_accounting")

from fedse.cli.app import start

EXPERIMENT = """
[run]
rounds = 1
[model]
base = "tiny-five"
[train]
epochs = 2
[privacy]
epsilon = 8.0
noise = 0.742
rate = 0.1
[[clients]]
name = "a"
env = "textcraft"
"""


STEPPING = """
[aggregate]
secure = true
clip = "none"
[train]
factors = "b"
[privacy]
epsilon = 8.0
""" + "".join(f'[[clients]]\nname = "{name}"\nenv = "maze"\n' for name in "abcde")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "one.toml").write_text(EXPERIMENT)
    return tmp_path / "one.toml"


def test_the_published_settings_have_their_published_ratios(
    file: Path, capsys: pytest.CaptureFixture[str]
):
    assert start(["privacy", "plan", str(file), "--units", "200", "--sites", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ratios = {name: round(found[name]["ratio"], 2) for name in ("alone", "mean", "shared")}
    assert ratios == {"alone": 0.04, "mean": 0.09, "shared": 1.29}
    assert found["mean"]["gain"] == [0.0, 0.0]
    assert found["shared"]["sites"] == [3, 5]


def test_it_says_what_was_measured_on_what_and_what_to_set_instead(
    file: Path, capsys: pytest.CaptureFixture[str]
):
    assert start(["privacy", "plan", str(file), "--units", "200"]) == 0
    told = capsys.readouterr().out
    assert "one model (tiny-five, rank 8), one world" in told
    assert 'train.factors = "b"' in told
    assert "needs 3 sites or more" in told
    assert start(["privacy", "plan", str(file), "--units", "200", "--signal", "0.5"]) == 0
    assert "signal   0.500 (as given)" in capsys.readouterr().out


def test_private_steps_are_planned_as_such_and_their_noise_is_no_sites_own(
    file: Path, capsys: pytest.CaptureFixture[str]
):
    def planned() -> dict[str, float]:
        assert start(["privacy", "plan", str(file), "--units", "200", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        return {way: found[way]["ratio"] for way in ("alone", "mean", "shared")}

    file.write_text(f"{STEPPING}[step]\nunits = 0\n")
    apart = planned()
    file.write_text(f"{STEPPING}[step]\nunits = 1000\nnoise = 3.61\n")
    assert planned() == apart
    assert start(["privacy", "plan", str(file), "--units", "200"]) == 0
    told = capsys.readouterr().out
    assert "\n[privacy] at each site" in told
    assert "\none noise shared in a secure sum ([step]), 3 honest sites left" in told
    assert "R 1.25: docs/results/private-step.json" in told


def test_what_is_missing_is_asked_for(file: Path, capsys: pytest.CaptureFixture[str]):
    assert start(["privacy", "plan", str(file)]) == 2
    assert "--units 200" in capsys.readouterr().err
    file.write_text(EXPERIMENT.replace("epsilon = 8.0", ""))
    assert start(["privacy", "plan", str(file), "--units", "200"]) == 2
    assert "--epsilon 8" in capsys.readouterr().err
    steps = "[step]\nunits = 1000\nnoise = 3.61\n"
    file.write_text(f'[run]\nrounds = "open"\n{STEPPING}{steps}')
    assert start(["privacy", "plan", str(file), "--units", "200"]) == 2
    assert "privacy.rounds" in capsys.readouterr().err
    assert start(["privacy", "plan", str(file), "--units", "200", "--epsilon", "3"]) == 2
    file.write_text(file.read_text().replace("epsilon = 8.0", "epsilon = 8.0\nrounds = 36"))
    assert start(["privacy", "plan", str(file), "--units", "200"]) == 0
