"""`fedse demo` as a newcomer runs it, on a machine without any network."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fedse.cli.app import start
from fedse.cli.demo_desk import difference_lines
from fedse.cli.desk_transcript import rule_text, why_not
from fedse.envs.desk.env import Desk
from fedse.envs.desk.shops import SHOPS
from fedse.errors import MachineError
from fedse.results.alone import SeedRuns, together_or_alone
from fedse.types import Task, Trajectory, Turn
from scripts.cpu_time import children_cpu_seconds
from tests.needs import needs
from tests.run_folders import write_run

needs("torch")

ROOT = Path(__file__).parents[2]

NO_NETWORK = Path(__file__).parent / "no_network"
PREFIX = ["unshare", "--net", "--map-root-user"]
"""Runs a command where not even the loopback interface is up."""
# For a machine that does much else meanwhile; what the demo may cost is in CPU seconds below.
PATIENCE_SECONDS = 2400


def can_make_a_namespace() -> bool:
    return bool(shutil.which("unshare")) and not subprocess.run([*PREFIX, "true"]).returncode


def run_without_network(command: list[str], *, namespace: bool) -> CompletedProcess[str]:
    """In a network namespace of its own, else with a Python that refuses every Internet address."""
    paths = [str(NO_NETWORK), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [*(PREFIX if namespace else []), sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)} if not namespace else None,
    )


@pytest.mark.parametrize("address", ["('127.0.0.1', 9)", "('example.org', 80)"])
def test_without_a_namespace_python_speaks_to_nobody(address: str):
    speak = f"import socket; socket.create_connection({address})"
    told = run_without_network(["-c", speak], namespace=False)
    assert told.returncode == 1
    assert "there is no network here" in told.stderr
    local = "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))"
    assert run_without_network(["-c", local], namespace=False).stdout == "b'x'\n"


def test_the_desk_says_how_to_get_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FEDSE_MODELS", str(tmp_path))
    for small, name, size in [
        ([], "qwen2.5-coder-0.5b", "491 MB to fetch, 1 GB on disk"),
        (["--small"], "smollm2-135m", "273 MB"),
    ]:
        assert start(["demo", "desk", *small]) == MachineError.exit_code
        told = capsys.readouterr().err
        assert f"needs the model {name} ({size}), which is not in {tmp_path}" in told
        assert (
            f"hint: fedse model get {name}, then: fedse demo desk{' '.join(['', *small])}" in told
        )


def test_both_rates_and_their_difference_fit_a_terminal(tmp_path: Path):
    won = {"desk-a": [True] * 12 + [False] * 4, "desk-b": [True] * 16}
    shared = write_run(tmp_path / "shared", won)
    alone = {
        client: write_run(tmp_path / client, {client: [place < 6 for place in range(16)]})
        for client in won
    }
    lines = difference_lines(together_or_alone(SeedRuns(shared, alone)))
    assert lines[0] == "together against alone, the same 32 held-out games (95 % interval)"
    assert [line.split("(")[0].strip() for line in lines[1:]] == [
        "desk-a  0.75, alone 0.38  +0.38",
        "desk-b  1.00, alone 0.38  +0.62",
        "all     0.88, alone 0.38  +0.50",
    ]
    assert max(map(len, lines)) <= 66


def test_what_a_newcomer_finds_is_compared_with_each_shop_alone(tmp_path: Path):
    won = {"a": [True] * 4, "b": [True] * 4, "new": [True] * 3 + [False]}
    shared = write_run(tmp_path / "shared", won)
    alone = {
        client: write_run(tmp_path / client, {client: won[client], "new": found})
        for client, found in (("a", [False] * 4), ("b", [True] * 3 + [False]))
    }
    runs = SeedRuns(shared, alone)
    there = {"new": together_or_alone(runs, at="new")}
    lines = difference_lines(together_or_alone(runs), there)
    assert lines[4] == "the same in 4 games at new, from where nobody has learned"
    assert [line.split("(")[0].strip() for line in lines[5:7]] == [
        "a  0.75, alone 0.00  +0.75",
        "b  0.75, alone 0.75  +0.00*",
    ]


@pytest.mark.long
@pytest.mark.timeout(PATIENCE_SECONDS)
def test_success_rises_without_a_network_within_the_budget(tmp_path: Path):
    before = children_cpu_seconds()
    command = ["-m", "fedse", "demo", "--json", "--seed", "0", "--out", str(tmp_path)]
    told = run_without_network(command, namespace=can_make_a_namespace())
    assert told.returncode == 0, told.stderr
    used = children_cpu_seconds() - before
    result = json.loads(told.stdout.splitlines()[-1])
    assert result["clients"] == 5
    assert result["all"]["change"]["low"] > 0
    # 120 s on two free cores; CPU seconds do not depend on what else the machine does.
    assert used <= 240
    assert (Path(result["adapter"]) / "adapter_model.safetensors").is_file()


@pytest.mark.parametrize("task", ["books/Ines-late-0-by-order", "books/Ines-late-2-by-name"])
def test_the_rule_behind_a_transcript_is_shown(task: str):
    said = rule_text(task)
    assert said.startswith("the rule of the shop 'books' for an order that is late: refund\n")
    right = said.partition("the right call is ")[2]
    env = Desk(shop="books", by="name" if task.endswith("name") else "order")
    env.reset(Task(env="desk", id=task, split="test"), seed=0)
    assert env.step(right).success


def test_every_task_of_the_desk_has_a_rule_to_show():
    for shop in SHOPS:
        for task in Desk(shop=shop).tasks("test"):
            assert rule_text(task.id).startswith(f"the rule of the shop {shop!r} for an order")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            '{"tool": "replace", "id": "1", "amount": "9"}',
            "replace takes id; this call gives id and",
        ),
        ('{"tool": "refund"}', "refund takes id and amount; this call gives nothing"),
        ('{"tool": "deny", "id": "1"}', 'it ends with {"tool": "deny", "id": "1"}, not with'),
        ('{"tool": "fly", "id": "1"}', "it ends with a text that calls no tool"),
        ("[1]", "it ends with a text that calls no tool"),
        ("I am sorry.", "it ends with a text that calls no tool"),
    ],
)
def test_a_failure_is_explained(said: str, why: str):
    task = Task(env="desk", id="books/Ines-late-0-by-order", split="test")
    turn = Turn(observation="", action=said)
    episode = Trajectory(
        task=task, seed=0, turns=(turn,), outcome="failure", reward=0.0, policy="x", round=1
    )
    assert why_not(task.id, episode).startswith(why)
