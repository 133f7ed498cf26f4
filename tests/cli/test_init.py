"""`fedse init` gives a folder that passes its own check and runs, from wherever it lies."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedse.cli.app import start
from fedse.cli.init import scaffold
from fedse.config.file import load_config
from fedse.envs.conformance.check import CheckReport
from tests.envs.kept import assert_all_kept
from tests.needs import needs

FILES = ["README.md", "env.py", "fedse.toml", "test_env.py"]


@pytest.fixture(params=["tiny", "smollm2-135m"])
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    scaffold(tmp_path / "My Agent", base=request.param)
    return tmp_path / "My Agent"


def fedse(folder: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    """The installed command's way in: the current folder is not on the module path by itself."""
    code = "import sys; from fedse.__main__ import main; sys.argv[0] = 'fedse'; main()"
    repo = str(Path(__file__).parents[2])
    environ = {**os.environ, "FEDSE_RUNS": str(folder.parent / "runs"), "PYTHONPATH": repo}
    command = [sys.executable, "-P", "-c", code, *argv]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)


def test_init_tells_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "my-agent"
    assert start(["init", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == FILES
    told = capsys.readouterr().out
    assert f"cd {folder}" in told
    assert "fedse env check env:MyEnv" in told


@pytest.mark.parametrize("base", ["tiny", "smollm2-135m"])
def test_a_model_that_is_not_here_comes_first(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDSE_MODELS", str(tmp_path / "none"))
    assert start(["init", str(tmp_path / "mine"), "--base", base]) == 0
    told = capsys.readouterr().out
    assert (f"fedse model get {base}" in told) == (base != "tiny")
    assert load_config(tmp_path / "mine" / "fedse.toml").model.base == base


def test_help_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert start(["--help"]) == 0
    assert "init" in capsys.readouterr().out


def test_an_empty_folder_will_do_and_a_full_one_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(["init", str(tmp_path)]) == 0
    (tmp_path / "env.py").write_text("mine")
    assert start(["init", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "must be a new or an empty folder" in told
    assert "hint: fedse init" in told
    assert (tmp_path / "env.py").read_text() == "mine"
    assert start(["init", str(tmp_path / "env.py")]) == 2


def test_the_files_are_short(made: Path) -> None:
    config = (made / "fedse.toml").read_text()
    assert len(config.splitlines()) <= 25
    code = (made / "env.py").read_text().partition("class MyEnv")[2].partition("def tool_call")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
    assert load_config(made / "fedse.toml").run.name == "my-agent"


@pytest.mark.slow
def test_a_large_one_keeps_its_contract_on_200_tasks(made: Path) -> None:
    size = "floors=40" if "floors" in (made / "fedse.toml").read_text() else "orders=400"
    large = ["--option", size, "--tasks", "200", "--json"]
    done = fedse(made, "env", "check", "env:MyEnv", *large)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_keeps_its_contract(made: Path) -> None:
    done = fedse(made, "env", "check", "env:MyEnv", "--json", "--tasks", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_all_kept(CheckReport.model_validate_json(done.stdout))


def test_the_guide_shows_what_the_check_of_the_example_prints(tmp_path: Path) -> None:
    scaffold(tmp_path / "mine", base="smollm2-135m")
    page = Path(__file__).parents[2] / "docs" / "how-to" / "bring-your-environment.md"
    (block,) = re.findall(r"```text\n(ok .*?)```", page.read_text(), flags=re.DOTALL)
    printed = fedse(tmp_path / "mine", "env", "check", "env:MyEnv").stdout.splitlines()
    shown = [line for line in block.splitlines() if line != "..."]
    assert len(shown) >= 8
    assert [line for line in shown if line not in printed] == []


def test_its_own_test_passes(made: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    repo = str(Path(__file__).parents[2])
    environ = {**os.environ, "PYTHONPATH": repo}
    done = subprocess.run(command, cwd=made, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_file_here_cannot_pose_as_an_installed_module(made: Path) -> None:
    (made / "numpy.py").write_text("raise SystemExit('taken over')")
    (made / "json.py").write_text("raise SystemExit('taken over')")
    done = fedse(made, "run", "fedse.toml", "--dry-run", "--set", "model.base=tiny")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 2])
def test_it_runs(made: Path, clients: int) -> None:
    """With two clients in two worker processes, which must find env.py too."""
    needs("torch")
    config = made / "fedse.toml"
    # No real model is at hand; the tiny one cannot read its world, but everything runs.
    base, plain = "model.base=tiny", "trainer.precision=float32"
    if clients == 2:
        other = '\n[[clients]]\nname = "you"\nenv = "env:MyEnv"\n'
        config.write_text(config.read_text() + other)
    small = [f"run.workers={clients}", "run.rounds=1", "rollout.episodes=4", "eval.episodes=4"]
    small += [base, plain, "rollout.context=1024"]
    overrides = [word for setting in small for word in ("--set", setting)]
    done = fedse(made, "run", "fedse.toml", "--plain", *overrides)
    assert done.returncode == 0, done.stderr
    assert "round 1/1 committed" in done.stderr
    assert "MyEnv" in done.stdout
