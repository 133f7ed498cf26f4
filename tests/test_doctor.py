"""The doctor finds what is missing, says what to do about it, and leaves no trace."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fedse.cli.app import start
from fedse.config.schema import ClientSection, Config, ModelSection
from fedse.doctor import NEEDED, OPTIONAL, Diagnosis, examine
from fedse.errors import INSTALL_TORCH
from tests.needs import needs

SOME_LACK = (*OPTIONAL, "nginx")

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}


def test_a_ready_machine_has_no_failure_and_the_root_stays_empty(tmp_path: Path):
    found = examine(tmp_path / "runs", QUIET, ports=())
    assert {f.status for f in found if not any(p in f.what for p in SOME_LACK)} == {"ok"}
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


def test_noise_for_both_factors_is_warned_of_until_it_is_changed(tmp_path: Path):
    member = {"name": "a", "env": "maze"}

    def told(**train: object) -> list[str]:
        raw = {"privacy": {"epsilon": 8.0}, "train": train, "clients": [member]}
        found = examine(tmp_path, QUIET, Config.model_validate(raw), ports=())
        return [f.fix for f in found if f.status == "warn" and "privacy.epsilon" in f.what]

    both = told()
    assert len(both) == 2
    assert 'train.factors = "b"' in both[0]
    assert told(factors="b") == []


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


def test_what_is_lacking_is_told_in_whole_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fedse.doctor.installed", lambda package: "")
    monkeypatch.setattr("fedse.doctor.shutil.which", lambda program: None)
    found = {f.what: f for f in examine(tmp_path, QUIET, ports=())}
    worlds = found["fed-se-worlds is not installed, needed for babyai, textcraft, webshop"]
    assert (worlds.status, worlds.fix) == ("warn", "if you want it: pip install fed-se-worlds")
    assert not [what for what in found if "[" in what]
    assert found["nginx is not installed, needed to lead a federation"].fix.endswith("nginx-light")
    torch = found["torch is not installed, needed to play and train"]
    assert (torch.status, torch.fix) == ("fail", INSTALL_TORCH)


def test_a_taken_port_is_a_warning_that_names_who_has_it(tmp_path: Path):
    needs("flwr")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("", 0)) as other:
        taken, left = one.getsockname()[1], other.getsockname()[1]
        other.close()
        told = examine(tmp_path, QUIET, ports=(taken, left))
    warned, free = (f for f in told if f.what.startswith(("port ", "free ports")))
    assert (warned.status, free) == ("warn", Diagnosis("ok", f"free ports: {left}"))
    assert f"port {taken}, " in warned.what
    assert f"(process {os.getpid()})" in warned.what
    assert warned.fix == "if you lead one: fedse federation create ... --port PORT"


def test_a_client_counts_its_own_part_of_the_tasks(tmp_path: Path):
    coin = {"env": "fedse.testing:CoinWorld", "options": {"tasks": 45}}
    clients = [{"name": "a", **coin, "part": [1, 2]}, {"name": "b", **coin}]
    found = examine(tmp_path, QUIET, Config.model_validate({"clients": clients}), ports=())
    assert [f.what for f in found if f.what.startswith("client ")] == [
        "client a: fedse.testing:CoinWorld with 23 training tasks, part 1 of 2",
        "client b: fedse.testing:CoinWorld with 45 training tasks",
    ]


def test_no_package_is_imported(tmp_path: Path):
    """Without an experiment, whose environments have to be made."""
    code = (
        "import sys, pathlib, fedse.doctor as d\n"
        f"d.examine(pathlib.Path({str(tmp_path)!r}), {{}}, ports=())\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {*OPTIONAL, *NEEDED} & set(done.stdout.split())
