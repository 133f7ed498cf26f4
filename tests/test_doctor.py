"""The doctor finds what is missing, says how to mend it, and leaves no trace."""

import json
from pathlib import Path

import pytest

from fedse.cli.app import start
from fedse.config.schema import ClientSection, Config, ModelSection
from fedse.doctor import OPTIONAL, examine

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}


def test_a_ready_machine_has_no_failure_and_the_root_stays_empty(tmp_path: Path):
    found = examine(tmp_path / "runs", QUIET)
    assert {f.status for f in found if not any(p in f.what for p in OPTIONAL)} == {"ok"}
    assert list((tmp_path / "runs").iterdir()) == []


def test_talkative_packages_and_spinning_threads_are_warned_of(tmp_path: Path):
    warned = [f for f in examine(tmp_path, {}) if f.status == "warn"]
    assert any("OMP_WAIT_POLICY=PASSIVE" in f.fix for f in warned)
    assert any("HF_HUB_OFFLINE=1" in f.fix for f in warned)
    assert all(f.fix for f in warned)


def test_what_an_experiment_lacks_is_a_failure_with_its_cause(tmp_path: Path):
    config = Config(
        model=ModelSection(base="nowhere"), clients=(ClientSection(name="a", env="mase"),)
    )
    failed = [f for f in examine(tmp_path, QUIET, config) if f.status == "fail"]
    assert len(failed) == 2
    assert "nowhere" in failed[0].what
    assert "mase" in failed[1].what


def test_a_folder_that_cannot_be_written_is_a_failure(tmp_path: Path):
    """Root may write into every folder, but nobody into a file as if it were one."""
    (tmp_path / "file").touch()
    failed = [f for f in examine(tmp_path / "file" / "runs", QUIET) if f.status == "fail"]
    told = f"cannot write to {tmp_path / 'file' / 'runs'}: Not a directory"
    assert [f.what for f in failed] == [told]


def test_the_exit_code_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path))
    assert start(["doctor", "--json"]) == 0
    assert {f["status"] for f in json.loads(capsys.readouterr().out)} <= {"ok", "warn"}
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[[clients]]\nname = "a"\nenv = "mase"\n')
    assert start(["doctor", str(wrong)]) == 3
    told = capsys.readouterr()
    assert "fail" in told.out
    assert "1 of" in told.err
