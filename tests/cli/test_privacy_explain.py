"""`fedse privacy explain`: of presets, of a file, and of what is off."""

from pathlib import Path

import pytest

from fedse.cli.app import start
from fedse.cli.privacy_explain import MEMBERS
from fedse.config.presets import PRESETS
from fedse.privacy.explained import NEVER, PROTECTIONS


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert start(["privacy", "explain", *words]) == 0
    return capsys.readouterr().out


def test_every_preset_says_what_it_turns_on_and_the_strictest_all_that_goes_together(
    capsys: pytest.CaptureFixture[str],
):
    assert all(f"\n{name}: " in f"\n{told(capsys)}" for name in PRESETS)
    on = [told(capsys, name).count("\nON   ") for name in PRESETS]
    assert on == sorted(set(on))
    assert on[-1] == len(PROTECTIONS) - 1
    text = told(capsys, "patient-data")
    assert f"OFF  {PROTECTIONS[-1].name}" in text
    assert "step.units = 1000, step.noise = 3.61\n" in text


def test_noise_of_each_site_goes_with_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "my.toml"
    file.write_text(f'[step]\nunits = 0\n[privacy]\npreset = "patient-data"\n{MEMBERS}')
    text = told(capsys, str(file))
    assert text.count("\nON   ") == len(PROTECTIONS)
    assert "audit.max_auc = 0.75" in text
    assert "audit.max_auc" not in told(capsys, "patient-data")


@pytest.mark.parametrize("name", PRESETS)
def test_it_says_what_is_off_and_what_nothing_changes(
    name: str, capsys: pytest.CaptureFixture[str]
):
    text = told(capsys, name)
    assert text.count("\nON   ") + text.count("\nOFF  ") == len(PROTECTIONS)
    assert text.count("     bounds  ") == text.count("     cost  ") == text.count("\nON   ")
    assert all(f"- {line}" in text for line in NEVER)


def test_a_file_is_explained_whoever_turned_it_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "my.toml"
    file.write_text(f"[redact]\nsecrets = true\n{MEMBERS}")
    text = told(capsys, str(file))
    assert text.startswith("privacy.preset is not set")
    assert f"ON   {PROTECTIONS[0].name}" in text
    assert f"OFF  {PROTECTIONS[1].name}" in text


def test_what_is_neither_a_preset_nor_a_file_is_an_error(capsys: pytest.CaptureFixture[str]):
    assert start(["privacy", "explain", "patient"]) == 2
    assert "patient" in capsys.readouterr().err
