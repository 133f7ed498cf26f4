"""`fedse engine`: what it prints of a server that is right, wrong or not there."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.needs import needs

needs("torch", "uvicorn", "httpx", "psutil")

import psutil

from fedse.cli.app import start
from tests.engine.conftest import small_python, small_server

EXPERIMENT = """
[engine]
type = "vllm"
adapters = "{mode}"
patience = {patience}

[model]
base = "{base}"

[[clients]]
name = "a"
env = "maze"
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory):
    with small_server(tmp_path_factory.mktemp("engine")) as url:
        yield url


def check(
    folder: Path, url: str, *, mode: str = "lora", base: str = "tiny", patience: float = 20.0
) -> int:
    file = folder / "my.toml"
    file.write_text(EXPERIMENT.format(mode=mode, base=base, patience=patience))
    return start(["engine", "check", str(file), "--url", url])


@pytest.mark.parametrize("mode", ["lora", "merged"])
def test_a_server_that_is_right(tmp_path: Path, capsys, url: str, mode: str):
    assert check(tmp_path, url, mode=mode) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:6].strip() for line in lines] == ["ok"] * 4
    assert "differ by 0.000 nats" in lines[2]


def test_a_server_with_another_model(tmp_path: Path, capsys, url: str):
    assert check(tmp_path, url, mode="merged", base="tiny-five", patience=2.0) == 3
    assert "FAIL" in capsys.readouterr().out


def test_nobody_there(tmp_path: Path, capsys):
    assert check(tmp_path, "http://127.0.0.1:9") == 3
    told = capsys.readouterr()
    nobody = "FAIL  no server answers at http://127.0.0.1:9\n      fix: start one"
    assert told.out.startswith(nobody)
    assert told.err == "error: the engine is not ready for this experiment\n"


def test_an_experiment_without_a_server(tmp_path: Path, capsys):
    file = tmp_path / "my.toml"
    file.write_text('[[clients]]\nname = "a"\nenv = "maze"\n')
    assert start(["engine", "check", str(file)]) == 2
    assert "engine.type = 'in-process': there is no server" in capsys.readouterr().err


@pytest.mark.parametrize("when", ["while it starts", "while it serves"])
def test_a_service_manager_ends_the_server_too(tmp_path: Path, when: str):
    file = tmp_path / "my.toml"
    own = f'python = "{small_python(tmp_path)}"\n[model]'
    text = EXPERIMENT.format(mode="lora", base="tiny", patience=120.0)
    file.write_text(text.replace("[model]", own))
    command = [sys.executable, "-m", "fedse", "engine", "start", str(file), "--folder", "own"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        if when == "while it serves":
            assert serving.stdout.readline() == f"unix:{tmp_path}/own/engine.sock\n"
        ends = time.monotonic() + 60
        while not (servers := psutil.Process(serving.pid).children(recursive=True)):
            assert time.monotonic() < ends
            time.sleep(0.02)
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(60) == 0
    assert not any(server.is_running() for server in servers)
