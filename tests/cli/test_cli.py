"""The command line as a person and as a program meet it."""

import json
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fedse import __version__, errors
from fedse.__main__ import end_on_sigterm
from fedse.cli.app import VERBS, start
from fedse.cli.board import board_of
from fedse.cli.console import plain_line
from fedse.cli.live import STATES, draw
from fedse.cli.moved import MOVED
from fedse.config.file import load_config, parse_config
from fedse.config.schema import ClientSection, Config
from scripts.cpu_time import children_cpu_seconds
from tests.needs import needs

HEAVY = {"torch", "flwr", "transformers", "peft", "ray"}
ANSI = "\x1b["

SMALL = """
[run]
name = "small"
rounds = 1
[rollout]
episodes = 4
context = 256
new_tokens = 8
max_turns = 2
[buffer]
demonstrations = 2
[eval]
episodes = 4
[[clients]]
name = "a"
env = "maze"
options = { prompt = "short" }
"""


@pytest.fixture(autouse=True)
def runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("FEDSE_DEBUG", raising=False)
    return tmp_path / "runs"


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def fedse(*argv: str, **options: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fedse", *argv]
    return subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


def cpu_seconds(*argv: str) -> float:
    """Of this Python with these arguments."""
    before = children_cpu_seconds()
    subprocess.run([sys.executable, *argv], capture_output=True, check=True)
    return children_cpu_seconds() - before


def modules_after(argv: list[str]) -> set[str]:
    code = (
        "import sys, fedse.__main__ as m\n"
        f"sys.argv = ['fedse', *{argv!r}]\n"
        "try: m.main()\n"
        "except SystemExit: pass\n"
        "print('MODULES', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.rpartition("MODULES ")[2].split()}


def test_version_and_help_are_quick() -> None:
    """Against what Python takes to load a part of its own: 0.11 s of a core, here 0.04 and 0.25."""
    commands = (("-c", "import asyncio"), ("-m", "fedse", "--version"), ("-m", "fedse", "--help"))
    # In turns, because a core is now faster and now slower; the least of each is the undisturbed.
    turns = [[cpu_seconds(*command) for command in commands] for _ in range(6)]
    yardstick, version, help_ = map(min, zip(*turns, strict=True))
    assert version <= yardstick
    assert help_ <= 4 * yardstick


def test_version_loads_nothing() -> None:
    loaded = modules_after(["--version"])
    assert not loaded & (HEAVY | {"cyclopts", "rich", "pydantic", "numpy"})
    assert fedse("--version").stdout == f"fedse {__version__}\n"


def test_help_loads_no_verb() -> None:
    assert not modules_after(["--help"]) & (HEAVY | {"pydantic", "numpy"})


@pytest.mark.parametrize("argv", [["runs"], ["config", "explain", "train.lr"], ["env", "list"]])
def test_reading_verbs_load_nothing_heavy(argv: list[str]) -> None:
    assert not modules_after(argv) & HEAVY


GROUPED = ["config show", "config explain", "env list", "env check", "env play"]


@pytest.mark.parametrize("verb", [*VERBS, *GROUPED])
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert start([*verb.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: fedse {verb}")
    assert "Example: fedse" in said
    assert ANSI not in said


def test_dry_run_says_what_a_run_would_do_in_a_few_lines(
    small: str, runs_here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(["run", small, "--set", "run.rounds=7", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "nothing was started" in said
    assert re.search(r"adapter +\d+ parameters, 0\.\d\d MB", said)
    assert "time       unknown: no earlier run of this model here" in said
    assert len(said.splitlines()) < 10
    assert not runs_here.exists()


def test_config_show_prints_a_config_that_runs(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(["config", "show", small, "--set", "run.rounds=7"]) == 0
    assert parse_config(capsys.readouterr().out, "shown").run.rounds == 7


def test_dry_run_as_json(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert start(["run", small, "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    plan = told["plan"]
    assert Config.model_validate(told["config"]).run.rounds == plan["rounds"]
    assert plan["clients"] == {"a": "maze"}
    assert plan["bytes_per_round_down"] == plan["adapter_bytes"]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["rnu"], 2, 'Did you mean "run"?'),
        (["run"], 2, "CONFIG"),
        (["run", "nowhere.toml"], 2, "there is no file nowhere.toml"),
        (["resume", "nothing"], 7, "there is no run 'nothing'"),
        (["config", "explain", "train.lrr"], 2, "did you mean 'train.lr'?"),
        (["env", "play", "mazze"], 2, "environment 'mazze' is unknown"),
        (["env", "play", "maze", "--option", "x"], 2, "--option must look like name=value"),
    ],
)
def test_errors_are_one_form(
    argv: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(argv) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert said in told.err
    assert "Traceback" not in told.err


def test_a_wrong_file_is_told_before_anything_starts(
    small: str, runs_here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(small).write_text(SMALL.replace("rounds", "ruonds"))
    assert start(["run", small]) == 2
    assert f"{small}:4  run.ruonds is not a setting" in capsys.readouterr().err
    assert not runs_here.exists()


def test_a_wrong_environment_names_the_client(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(["run", small, "--dry-run", "--set", "clients.0.env=mazes"]) == 2
    told = capsys.readouterr().err
    assert "clients.0 (a): environment 'mazes' is unknown" in told
    assert "did you mean 'maze'?" in told


@pytest.mark.parametrize("old", MOVED)
def test_a_command_of_before_says_what_to_type_now(old: str, capsys: pytest.CaptureFixture[str]):
    assert start([*old.split(), "x", "--home", "y"]) == 2
    told = capsys.readouterr().err
    assert f"the command fedse {old} no longer exists" in told
    assert f"hint: {MOVED[old]}" in told


@pytest.mark.parametrize("old", [old for old, new in MOVED.items() if new.startswith("fedse")])
def test_what_replaces_it_is_a_command(old: str, capsys: pytest.CaptureFixture[str]):
    for new in MOVED[old].split("; "):
        words = [word for word in new.split()[1:] if word.islower() or word.startswith("-")]
        assert start([*(word for word in words if not word.startswith("-")), "--help"]) == 0
        listed = capsys.readouterr().out
        assert all(word in listed for word in words if word.startswith("-"))


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert start(["resume", "nothing", "--debug"]) == 7
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("FEDSE_DEBUG", "1")
    assert start(["resume", "nothing"]) == 7
    assert "Traceback" in capsys.readouterr().err


def test_a_bug_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedse.cli.runs.list_runs", lambda root: 1 / 0)
    assert start(["runs"]) == 1
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told
    assert "this is a bug" in told


def test_no_torch_says_how_to_get_it(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "is_installed", lambda name: False)
    for argv in (["run", small], ["demo"]):
        assert start(argv) == 3
        told = capsys.readouterr().err
        assert "needs torch, transformers, peft" in told
        assert "hint: uv pip install --torch-backend cpu 'fed-se[hf]'" in told


def test_a_service_manager_can_stop_it():
    before = signal.getsignal(signal.SIGTERM)
    try:
        end_on_sigterm()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_interrupt_says_how_to_go_on(
    small: str,
    runs_here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(run: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedse.drivers.run.run_local", stopped)
    assert start(["run", small, "--name", "mine"]) == 130
    told = capsys.readouterr().err
    assert "stopped after round 0 of 1" in told
    assert f"hint: fedse resume {runs_here / 'mine'}" in told


def test_play_reads_a_pipe() -> None:
    done = fedse(
        "env", "play", "wordle", "--option", "prompt=short", input="?\nzzzzz\n" + "!\n" * 5
    )
    assert done.returncode == 0, done.stderr
    assert "invalid" in done.stdout
    assert "a p p l e" in done.stdout
    assert done.stdout.count("expert: ") >= 1
    assert re.search(r"(no )?success in \d turns", done.stdout)
    assert ANSI not in done.stdout + done.stderr


def test_play_can_be_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for typed in ("q\n", ""):
        monkeypatch.setattr("sys.stdin", StringIO(typed))
        assert start(["env", "play", "maze"]) == 0
        assert "you left the game" in capsys.readouterr().out


def test_env_check_fails_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert start(["env", "check", "builtins:dict", "--tasks", "2"]) == 4
    assert "breaks its contract" in capsys.readouterr().out


def test_config_show_and_explain(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert start(["config", "show", small]) == 0
    assert parse_config(capsys.readouterr().out, "shown") == load_config(Path(small))
    assert start(["config", "explain"]) == 0
    assert "train.lr" in capsys.readouterr().out


def test_no_runs_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert start(["runs"]) == 0
    assert "fedse demo" in capsys.readouterr().out
    assert start(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("width", [100, 80, 60, 40])
def test_state_words_are_whole_at_any_width(width: int) -> None:
    names = [f"organisation-{i}" for i in range(len(STATES))]
    board = board_of(Config(clients=tuple(ClientSection(name=n, env="maze") for n in names)))
    for row, state in zip(board.rows.values(), STATES, strict=True):
        row.state = state
    shown = StringIO()
    console = Console(file=shown, width=width, force_terminal=False)
    console.print(draw(board, width=width, height=40, symbols=True))
    for line in shown.getvalue().splitlines():
        assert len(line) <= width
    for state in STATES:
        assert f" {state}" in shown.getvalue()


def test_events_nobody_has_words_for_are_still_shown() -> None:
    assert plain_line("gate.closed", {"time": 1, "event": "gate.closed", "why": 3}, rounds=2) == (
        "gate.closed why=3"
    )


@pytest.mark.slow
def test_a_whole_run(small: str, runs_here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs("torch")
    assert start(["run", small, "--name", "mine"]) == 0
    told = capsys.readouterr()
    assert ANSI not in told.out + told.err
    assert "round 1/1 committed" in told.err
    assert f"adapter    {runs_here / 'mine' / 'adapters' / 'round-001'}" in told.out
    assert start(["runs"]) == 0
    assert "mine  finished, 1 round" in capsys.readouterr().out
    assert start(["eval", "mine", "--episodes", "3", "--round", "0", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert [row["played"] for row in measured["success"][:3]] == [3, 3, 3]
    assert start(["resume", "mine", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["run.started", "run.finished", "result"]
