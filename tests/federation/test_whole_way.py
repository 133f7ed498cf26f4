"""The law again, through invitations and the proxy: the federation's adapter is the local driver's.

A real site is started by its own command, behind a real nginx, and is told to stop.
"""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")
if shutil.which("nginx") is None:
    pytest.skip("nginx is not installed", allow_module_level=True)

from fedse.cli.app import start
from fedse.config_file import load_config
from fedse.federation.folder import open_federation
from fedse.flower.processes import free_ports
from fedse.local import run_local
from fedse.run_folder import create_run, open_run

EXPERIMENT = """
[run]
name = "clinics"
rounds = 2
[model]
rank = 2
[rollout]
episodes = 2
context = 256
new_tokens = 4
max_turns = 2
[buffer]
demonstrations = 2
[train]
epochs = 1
max_steps = 1
lr = 1e-3
[eval]
episodes = 2
[aggregate]
deadline = 90.0
[[clients]]
name = "alpha"
env = "maze"
options = { prompt = "short" }
"""


@contextmanager
def site_started(home: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "fedse", "site", "start", "--home", str(home)]
    site = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield site
    finally:
        site.send_signal(signal.SIGTERM)
        assert site.wait(60) == 0


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_invited_behind_the_proxy_the_adapter_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedse.cli.federation.end_on_sigterm", lambda: None)
    Path("my.toml").write_text(EXPERIMENT)
    port, link = map(str, free_ports(2))
    ports = ["--port", port, "--link-port", link]
    assert start(["federation", "create", "my.toml", "--host", "localhost", *ports]) == 0
    assert start(["federation", "invite", "alpha"]) == 0
    federation = open_federation(Path("federation"))
    invite = "federation/invites/alpha.invite.json"
    own = ["--env", "maze", "--option", "prompt=short"]
    heard = ["--fingerprint", federation.card.fingerprint]
    assert start(["site", "join", invite, *own, *heard]) == 0
    assert start(["federation", "enrol", "site/enrolment.json"]) == 0
    with site_started(Path("site")) as site:
        assert "calls localhost" in site.stderr.readline()
        assert start(["federation", "start", "--json"]) == 0
    with closing(open_run(federation.run, clock=time.time)) as run:
        results = list(run.results())
    assert [result.voters for result in results] == [("alpha",)] * 2
    config, given = load_config(Path("my.toml")), EXPERIMENT
    local = create_run(
        tmp_path, config, given=given, name="local", now=datetime.now(), clock=time.time
    )
    with closing(local):
        run_local(local)
        expected = [result.after for result in local.results()]
    assert len(set(expected)) == 2, "every round changed the adapter"
    assert [result.after for result in results] == expected
