"""How a site is started: never without TLS and key, never another program, again when it ended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flwr.supercore.constant import TASK_TYPE_TO_COMMAND

from fedse.cli.federation import end_on_sigterm, require_flower
from fedse.errors import MachineError, RunError
from fedse.flower import attend, coordinate
from fedse.flower.admit import write_launchers
from fedse.flower.deploy import Desk, node_command
from fedse.flower.processes import Processes
from tests.federation.scene import Scene


def test_a_site_speaks_tls_believes_one_authority_and_proves_itself(scene: Scene):
    home = scene.join()
    desk = Desk("alpha", home.path, Path("/run/site.sock"), 9094)
    words = node_command(desk, home.card.server, home.authority, home.key)
    pairs = dict(zip(words[1::2], words[2::2], strict=True))
    assert pairs["--superlink"] == "fed.example.org:8443"
    assert pairs["--root-certificates"] == str(home.authority)
    assert pairs["--auth-supernode-private-key"] == str(home.key.private)
    assert pairs["--host"] == "127.0.0.1"
    assert "--insecure" not in words
    assert home.authority.read_text() == scene.federation.identity.ca.read_text()


def test_flower_finds_our_programs_first_whatever_the_server_asks_for(scene: Scene):
    home = scene.join()
    env = attend.node_environment(home, home.path / "flower")
    assert env["PATH"].split(os.pathsep)[0] == str(home.path / "bin")
    assert env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    for name in TASK_TYPE_TO_COMMAND.values():
        found = subprocess.run(
            ["/bin/sh", "-c", f"command -v {name}"], env=env, capture_output=True, text=True
        )
        assert found.stdout.strip() == str(home.path / "bin" / name)
    assert home.card.bundle in (home.path / "bin" / "flwr-clientapp").read_text()


@pytest.mark.parametrize(
    "name", [name for name in TASK_TYPE_TO_COMMAND.values() if name != "flwr-clientapp"]
)
def test_no_program_but_the_clients_starts(tmp_path: Path, name: str):
    program = write_launchers(tmp_path / "bin", "0" * 64) / name
    done = subprocess.run([program, "--insecure"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{name} is not started" in done.stderr


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_node_that_ended_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attend, "RESTART_SECONDS", 0.1)
    monkeypatch.setattr(attend, "LOOK_SECONDS", 0.05)
    starts, told = [], []
    with Processes(tmp_path, os.environ) as processes:

        def start_node():
            starts.append(time.monotonic())
            return processes.start("node", python("raise SystemExit(5)"))

        attend._keep(processes, start_node, time.monotonic() + 2, told.append)
    assert len(starts) >= 2
    assert starts[1] - starts[0] >= 0.1
    assert "not enrolled yet?" in told[0]


def test_a_site_whose_worker_died_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attend, "LOOK_SECONDS", 0.05)
    with Processes(tmp_path, os.environ) as processes:
        worker = processes.start("worker", python("print('no memory'); raise SystemExit(3)"))
        worker.process.wait(20)
        with pytest.raises(RunError, match=r"worker ended with exit code 3\n  \| no memory"):
            attend._keep(
                processes,
                lambda: processes.start("node", python("import time; time.sleep(60)")),
                time.monotonic() + 20,
                lambda _: None,
            )


def test_without_nginx_nothing_is_opened(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coordinate.shutil, "which", lambda _: None)
    with (
        pytest.raises(MachineError, match="nginx is not installed"),
        coordinate.serving(scene.federation, proxy=True),
    ):
        pass
    assert list((scene.federation.path / "logs").iterdir()) == []


def test_a_federation_is_not_started_twice(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coordinate, "healthy", lambda *_: True)
    with (
        pytest.raises(MachineError, match=r"already answers at 127\.0\.0\.1:8000"),
        coordinate.serving(scene.federation, proxy=False),
    ):
        pass


def test_the_superlink_listens_on_the_loopback_address_only(scene: Scene):
    assert coordinate.link_address(scene.federation) == "127.0.0.1:8000"
    assert not coordinate.introduce(scene.federation), "none runs"


def test_a_service_manager_can_stop_it():
    before = signal.getsignal(signal.SIGTERM)
    try:
        end_on_sigterm()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_without_its_packages_a_verb_says_which(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fedse.cli.federation.find_spec", lambda name: None)
    with pytest.raises(MachineError, match="needs flwr, cryptography") as refusal:
        require_flower()
    assert "fed-se[flower]" in refusal.value.hint


@pytest.mark.parametrize("module", ["fedse.cli.federation", "fedse.cli.site", "fedse.site.worker"])
def test_help_and_the_worker_need_neither_flower_nor_keys(module: str):
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"flwr", "cryptography", "torch"}
