"""`fedse view`: readable for people, harmless for terminals, plain for programs."""

import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.cli.app import start
from fedse.cli.transcript import split_turn, visible
from tests.exports.toy_run import make_run


@pytest.fixture(autouse=True)
def runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "runs"


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert start(["view", *argv]) == 0
    return capsys.readouterr().out


def test_the_default_is_a_summary_and_the_newest_few(
    runs_here: Path, capsys: pytest.CaptureFixture[str]
):
    make_run(runs_here)
    said = shown(capsys)
    rows = [line.split() for line in said.splitlines()]
    assert ["demo", "alpha", "1", "1", "1"] in rows
    assert ["1", "alpha", "6", "3", "1", "1", "1", "2", "1/2"] in rows
    assert ["beta", "6", "3", "1", "1", "1", "2", "1/2"] in rows
    assert "the newest 3 of 18 episodes" in said
    assert len(re.findall(r"^round 1  (alpha|beta)  ", said, flags=re.MULTILINE)) == 3


def test_an_episode_tells_who_said_what_and_what_became_of_it(
    runs_here: Path, capsys: pytest.CaptureFixture[str]
):
    make_run(runs_here)
    said = shown(capsys, "--client", "alpha", "--task", "train-2")
    assert said.splitlines() == [
        "1 episode",
        "",
        "round 1  alpha  train-2  success",
        "  reward 1, 2 turns, adapter abababababab, seed 1002, kept for learning",
        "  1 | a coin",
        "    > edge",
        "  2 | 2 left",
        "    ~ which?",
        "    > heads",
        "    ✔ succeeded",
    ]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--outcome", "broken"], "not kept: broken"),
        (["--outcome", "broken"], "broke: coin.step: it rolled away"),
        (["--outcome", "truncated"], "not kept: truncated"),
        (["--outcome", "failure", "--split", "train"], "not kept: failed"),
        (["--task", "train-1"], "not kept: duplicate"),
        (["--split", "test"], "held-out game of the adapter of round 0"),
        (["--round", "0"], "demonstration  alpha"),
        (["--round", "0"], "played by expert"),
        (["--round", "0", "--outcome", "failure"], "no episode matches"),
    ],
)
def test_filters_and_reasons(
    runs_here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], told: str
):
    make_run(runs_here)
    assert told in shown(capsys, *argv)


@pytest.mark.parametrize("columns", ["40", "60", "200"])
def test_lines_fit_and_end_without_blanks(
    runs_here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
):
    monkeypatch.setenv("COLUMNS", columns)
    make_run(runs_here)
    lines = shown(capsys, "--client", "alpha", "--limit", "0").splitlines()
    assert len(lines) > 20
    for line in lines:
        assert len(line) <= int(columns)
        assert line == line.rstrip()


def test_a_world_cannot_steer_the_terminal(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    make_run(runs_here)
    for argv in ([], ["--limit", "0"], ["--json", "--limit", "0"]):
        said = shown(capsys, *argv)
        assert not [c for c in said if unicodedata.category(c)[0] == "C" and c != "\n"]
    assert r"\x1b]0;owned\x07\x1b[2J\u202etxt\x9b31m\x0dover" in shown(capsys, "--limit", "0")


def test_no_colours_where_they_are_not_wanted(
    runs_here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    make_run(runs_here)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in shown(capsys)
    assert "\x1b[" not in shown(capsys, "--plain")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in shown(capsys)


@given(st.text())
def test_escaping_leaves_only_what_is_seen(text: str):
    told = visible(text)
    left = {c for c in told if unicodedata.category(c)[0] == "C"}
    assert left <= set("\n\t\u200c\u200d")
    assert visible(told) == told


@given(st.text(st.characters(exclude_categories=("C", "Zl", "Zp"))))
def test_what_is_seen_is_not_changed(text: str):
    assert visible(text) == text


@given(st.text(), st.text())
def test_a_thought_is_apart_and_nothing_is_lost(thought: str, action: str):
    said = split_turn(f"{thought}\nAction: {action}")
    for word in (*thought.split(), *action.split()):
        if not re.search(r"(?i)thought|think|action|:", word):
            assert word in f"{said.thought} {said.action}"


@pytest.mark.parametrize(
    ("text", "thought", "action"),
    [
        (" up", "", "up"),
        ("Thought: a wall.\nAction: left", "a wall.", "left"),
        ("<think>a wall</think>left", "a wall", "left"),
        ("Action: x Action: y", "Action: x", "y"),
        ("Action:", "", ""),
    ],
)
def test_parts_of_a_saying(text: str, thought: str, action: str):
    assert split_turn(text) == (thought, action)


def test_json_has_every_turn(runs_here: Path, capsys: pytest.CaptureFixture[str]):
    make_run(runs_here)
    summary, *episodes = map(json.loads, shown(capsys, "--json", "--limit", "0").splitlines())
    assert summary["event"] == "summary"
    assert sum(row["kept"] for row in summary["rounds"]) == sum(e["kept"] for e in episodes) == 6
    assert len(episodes) == 18
    assert episodes[-1]["turns"][0] == {"observation": "a coin", "action": "edge"}


def test_texts_that_were_not_kept_name_the_setting(
    runs_here: Path, capsys: pytest.CaptureFixture[str]
):
    make_run(runs_here, keep=False)
    said = shown(capsys, "--outcome", "failure")
    assert "its text was not kept" in said
    assert "buffer.keep_played = true" in said
    assert "> heads" in shown(capsys, "--task", "train-2")


@pytest.mark.parametrize(
    ("argv", "code", "told"),
    [
        (["made", "--client", "alhpa"], 2, "did you mean 'alpha'?"),
        (["made", "--round", "8"], 2, "only rounds 0 to 1"),
        (["mad"], 7, "did you mean 'made'?"),
        (["server"], 7, "episodes stay at the sites"),
        (["made", "--outcome", "lost"], 2, "success"),
    ],
)
def test_errors_help(
    runs_here: Path,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    code: int,
    told: str,
):
    make_run(runs_here)
    make_run(runs_here, name="server", clients=False)
    assert start(["view", *argv]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert told in said.err


@pytest.mark.parametrize("noun", ["trajectories", "results", "adapter"])
def test_every_export_has_help(noun: str, capsys: pytest.CaptureFixture[str]):
    assert start(["export", noun, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: fedse export {noun}")
    assert "Example: fedse" in said


def test_looking_loads_nothing_heavy(runs_here: Path):
    make_run(runs_here)
    code = (
        "import sys; from fedse.cli.app import start\n"
        "import fedse.cli.export, fedse.cli.run\n"
        "assert start(['view', 'made']) == 0\n"
        "print('MODULES', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.rpartition("MODULES ")[2].split()}
    heavy = {"torch", "transformers", "flwr", "pyarrow", "inspect_ai", "tensorboard", "mlflow"}
    assert not loaded & heavy
