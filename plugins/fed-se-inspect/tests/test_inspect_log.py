"""Inspect reads and serves what we wrote, every round for itself."""

import json
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from fedse.cli.app import start
from fedse.ports import free_ports
from tests.exports.toy_run import make_run
from tests.needs import needs


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    needs("inspect_ai")
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    make_run(tmp_path / "runs")
    argv = ["export", "trajectories", "made", "--to", "inspect", "--out", str(tmp_path / "logs")]
    assert start(argv) == 0
    assert start(argv) == 7, "logs are not replaced"
    made = sorted((tmp_path / "logs").iterdir())
    assert len(made) == 2
    return made


def test_without_inspect_the_line_to_install_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    monkeypatch.delitem(sys.modules, "fedse_inspect.inspect_log", raising=False)
    make_run(tmp_path / "runs")
    argv = ["export", "trajectories", "made", "--to", "inspect", "--out", str(tmp_path / "logs")]
    assert start(argv) == 3
    assert "hint: pip install fed-se-inspect" in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


def test_reading_back_gives_the_episodes(logs: list[Path]):
    from inspect_ai.log import read_eval_log

    read = [read_eval_log(str(path)) for path in logs]
    assert [log.eval.task for log in read] == ["toy-round-000", "toy-round-001"]
    assert len({log.eval.task_id for log in read}) == 2
    assert [len(log.samples or []) for log in read] == [2, 16]
    rates = {name: m.value for name, m in read[1].results.scores[0].metrics.items()}
    assert rates == {"held_out": 0.5, "explored": 0.5}
    won = next(s for s in read[1].samples if s.id == "beta-1-train-1")
    assert [m.role for m in won.messages] == ["system", *(["user", "assistant"] * 2)]
    assert won.messages[-1].text == "Thought: which?\nAction: heads"
    assert won.scores["success"].value == "C"
    facts = ("client", "env", "round", "task_id", "seed", "outcome")
    found = [won.metadata[name] for name in facts]
    assert found == ["beta", "coin", 1, "train-2", 1002, "success"]


def test_no_folder_of_this_machine_is_in_it(logs: list[Path], tmp_path: Path):
    for path in logs:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with zipfile.ZipFile(path) as packed:
            data = b"".join(packed.read(name) for name in packed.namelist())
        assert str(tmp_path).encode() not in data
        assert str(Path.home()).encode() + b"/" not in data


def test_inspect_dumps_it(logs: list[Path]):
    command = [sys.executable, "-m", "inspect_ai", "log", "dump", str(logs[1])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert len(json.loads(done.stdout)["samples"]) == 16


@pytest.mark.slow
def test_inspect_serves_it(logs: list[Path]):
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "inspect_ai", "view", "start", "--host", "127.0.0.1"]
    options = ["--port", str(port), "--log-dir", str(logs[0].parent)]
    with subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL) as server:
        try:
            listed = _asked(f"http://127.0.0.1:{port}/api/logs")
            assert {file["task"] for file in listed["files"]} == {"toy-round-000", "toy-round-001"}
            name = quote(f"file://{logs[1]}", safe="")
            assert len(_asked(f"http://127.0.0.1:{port}/api/logs/{name}")["samples"]) == 16
        finally:
            server.terminate()


def _asked(url: str) -> dict:
    for _ in range(120):
        try:
            answered: dict = httpx.get(url, timeout=10, trust_env=False).raise_for_status().json()
            return answered
        except httpx.HTTPError:
            time.sleep(0.5)
    raise AssertionError(f"{url} never answered")
