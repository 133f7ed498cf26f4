"""The switch by which the system tests kill and hold is wired to names that exist."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.field import LIGHT, SWITCHED

AT_A_SITE = """
import sys
from pathlib import Path
from fedse.config.schema import ClientSection, Config
from fedse.protocol import Question
from fedse.site import answer
from fedse.testing import open_toy_site, toy_adapter, toy_spec
config = Config(clients=(ClientSection(name="a", env="fedse.testing:CoinWorld"),))
site = open_toy_site(config, "a", Path(sys.argv[1]), clock=lambda: 0.0)
adapter = toy_adapter(toy_spec(), 1)
request = Question(
    experiment=config.run.name, round=3, agreed=config.agreed_digest(),
    spec=adapter.spec.identity, adapter=adapter.digest, kind="train", evaluate=False,
)
said = lambda event, /, **facts: print(event, flush=True)
answer.answer(request, adapter.to_bytes(), site, config, policy=None, emit=said)
print("over")
"""
AT_THE_SERVER = """
import sys
from pathlib import Path
from fedse.config.schema import ClientSection, Config
from fedse.store.run import Run
from fedse.testing import toy_spec
config = Config(clients=(ClientSection(name="a", env="maze"),))
run = Run(Path(sys.argv[1]), config, toy_spec(), clock=lambda: 0.0)
for event in ("rollout.started", "train.started", "upload.started"):
    run.emit(event, round=3)
    print(event, flush=True)
"""


def started(code: str, folder: Path, plan: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        env={**os.environ, "PYTHONPATH": SWITCHED, "FEDSE_KILL_PLAN": str(plan)},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    made = tmp_path / "plan"
    made.mkdir()
    return made


WHO = pytest.mark.parametrize(
    ("who", "code", "last"),
    [("a", AT_A_SITE, "train.started"), ("server", AT_THE_SERVER, "rollout.started")],
)


@WHO
def test_a_process_dies_where_the_plan_says(who: str, code: str, last: str, plan: Path):
    (plan / f"{who}@train.started@3").touch()
    (plan / f"{who}@upload.started@4").touch()
    process = started(code, plan.parent / "home", plan)
    told = process.communicate(timeout=120)[0].split()
    assert process.returncode == -signal.SIGKILL
    # A site's word was said before it died, the server's line was only in its file.
    assert told[-1] == last
    (killed,) = map(json.loads, (plan / "killed.jsonl").read_text().splitlines())
    assert (killed["who"], killed["event"], killed["round"]) == (who, "train.started", 3)
    assert {file.name for file in plan.iterdir()} == {"killed.jsonl", f"{who}@upload.started@4"}


@WHO
def test_a_process_waits_where_the_plan_says(who: str, code: str, last: str, plan: Path):
    (plan / f"{who}@train.started@3@hold").touch()
    process = started(code, plan.parent / "home", plan)
    held = plan / f"{who}@train.started@3@held"
    assert process.stdout is not None
    while process.stdout.readline() != f"{last}\n":
        assert process.poll() is None
    while not held.exists():
        assert process.poll() is None
    held.unlink()
    assert "upload.started" in process.communicate(timeout=120)[0].split()
    assert process.returncode == 0


def test_a_light_site_needs_no_model_and_only_where_it_is_asked_for():
    code = "from fedse.site.worker import open_site; print(open_site.__name__)"
    for more, name in ((LIGHT, "open_light_site"), ({}, "open_site")):
        environment = {**os.environ, "PYTHONPATH": SWITCHED, **more}
        done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
        assert done.stdout.decode().split() == [name]
