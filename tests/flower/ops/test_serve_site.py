"""How a site is started: never without TLS and key, never another program, again when it ended."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from flwr.supercore.constant import TASK_TYPE_TO_COMMAND

from fedse.cli.federation_options import require_flower
from fedse.errors import ConfigError, MachineError, RunError, StoreError
from fedse.flower.ops import serve_federation, serve_site
from fedse.flower.ops.commands import environment
from fedse.flower.ops.deployment import SitePlace, node_command, worker_command
from fedse.flower.ops.supernode import IDLE, UNANSWERED
from fedse.flower.patches.bundle_guard import write_launchers
from fedse.processes.group import Processes, Started
from fedse.processes.restart import HOPELESS, PAUSES, STEADY_SECONDS, RestartingProcess
from fedse.site import worker
from fedse.store import space
from tests.federation.scene import Scene
from tests.toys.small_disk import fill, free, small_disk


def test_a_site_speaks_tls_believes_one_authority_and_proves_itself(scene: Scene):
    home = scene.join()
    desk = SitePlace("alpha", home.path, Path("/run/site.sock"), 9094, Path("/run/node.sock"))
    words = node_command(desk, home.card.server, home.authority, home.key)
    assert words[1:4] == ["-P", "-m", "fedse.flower.ops.supernode"]
    pairs = dict(zip(words[4::2], words[5::2], strict=True))
    assert pairs["--runtime-socket"] == "/run/node.sock"
    assert pairs["--presence"] == str(home.path / "node.id")
    assert pairs["--superlink"] == "fed.example.org:8443"
    assert pairs["--root-certificates"] == str(home.authority)
    assert pairs["--auth-supernode-private-key"] == str(home.key.private)
    assert pairs["--host"] == "127.0.0.1"
    assert "--insecure" not in words
    assert home.authority.read_text() == scene.federation.identity.ca.read_text()
    among_many = node_command(desk, home.card.server, home.authority, home.key, many_sites=True)
    assert set(among_many) - set(words) == {"--many-sites"}


def test_flower_finds_our_programs_first_whatever_the_server_asks_for(scene: Scene):
    home = scene.join()
    env = serve_site.node_environment(home, home.path / "flower", Path("/run/node.sock"))
    assert env["PATH"].split(os.pathsep)[0] == str(home.path / "bin")
    assert env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert "flwr-clientapp" in TASK_TYPE_TO_COMMAND.values()
    for name in (*TASK_TYPE_TO_COMMAND.values(), "flower-superexec"):
        found = subprocess.run(
            ["/bin/sh", "-c", f"command -v {name}"], env=env, capture_output=True, text=True
        )
        assert found.stdout.strip() == str(home.path / "bin" / name)
    assert home.card.bundle in (home.path / "bin" / "flwr-clientapp").read_text()


@pytest.mark.parametrize(
    "name", [name for name in TASK_TYPE_TO_COMMAND.values() if name != "flwr-clientapp"]
)
def test_no_program_but_the_clients_starts(tmp_path: Path, name: str):
    program = write_launchers(tmp_path / "bin", "0" * 64, tmp_path / "node.sock") / name
    done = subprocess.run([program, "--insecure"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{name} is not started" in done.stderr


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def gone(group: int) -> bool:
    """Within a moment: init collects what has lost its parent."""
    ends = time.monotonic() + 10
    while lives(group) and time.monotonic() < ends:
        time.sleep(0.05)
    return not lives(group)


HINT = "fedse site start --home north"


def kept(
    processes: Processes,
    told: list[str],
    code: str,
    ready: Callable[[], bool] | None = None,
) -> RestartingProcess:
    def start() -> Started:
        return processes.start("worker", python(code))

    return RestartingProcess(processes, start, tell=told.append, ready=ready, hint=HINT)


def die_often(one: RestartingProcess) -> None:
    """Ten lives, each ended before the next look."""
    for now in range(0, 400, 20):
        one.look(now)
        if one.started:
            one.started.process.wait(20)


def test_a_process_that_ended_is_started_again_after_growing_pauses(tmp_path: Path):
    told: list[str] = []
    with Processes(tmp_path, os.environ) as processes:
        one, now, started_at = kept(processes, told, "raise SystemExit(5)"), 0.0, []
        for _ in range(7):
            one.look(now)
            assert one.started is not None
            one.started.process.wait(20)
            started_at.append(now)
            one.look(now)
            one.look(now)
            assert one.started is None, "not at once"
            now += PAUSES[min(len(started_at), len(PAUSES)) - 1]
    assert [b - a for a, b in pairwise(started_at)] == [*PAUSES, PAUSES[-1]]
    assert told[0].startswith("worker ended with exit code 5: ")
    assert "worker.log; started again in 1 s" in told[0]
    assert "worker-7.log" in told[6]


def test_after_it_has_run_for_a_while_the_pauses_begin_anew(tmp_path: Path):
    told: list[str] = []
    with Processes(tmp_path, os.environ) as processes:
        one = kept(processes, told, "raise SystemExit(5)")
        for began, ended in ((0, 1), (100, 101), (200, 200 + STEADY_SECONDS)):
            one.look(began)
            assert one.started is not None
            one.started.process.wait(20)
            one.look(ended)
    assert [line[-3:] for line in told] == ["1 s", "2 s", "1 s"]


def test_one_that_was_ready_is_started_again_soon_however_often_it_is_killed(tmp_path: Path):
    told: list[str] = []
    with Processes(tmp_path, os.environ) as processes:
        one = kept(processes, told, "raise SystemExit(5)", ready=lambda: True)
        for now in range(0, 50, 10):
            one.look(now)
            assert one.started is not None
            one.started.process.wait(20)
            one.look(now)
    assert [line[-3:] for line in told] == ["1 s"] * 5


def test_nothing_of_a_node_that_ended_runs_when_the_next_one_starts(tmp_path: Path):
    """Its SuperExec would else take the next one's tasks."""
    leaves = "import os, time\nif os.fork() == 0: time.sleep(60)"
    with Processes(tmp_path, os.environ) as processes:
        one = kept(processes, [], leaves)
        one.look(0.0)
        assert one.started is not None
        group = one.started.process.pid
        one.started.process.wait(20)
        assert lives(group)
        one.look(1.0)
        assert gone(group)


def test_a_worker_that_is_never_ready_stops_the_site(tmp_path: Path):
    told: list[str] = []
    with Processes(tmp_path, os.environ) as processes:
        code = "print('no such world'); raise SystemExit(2)"
        one = kept(processes, told, code, ready=lambda: False)
        with pytest.raises(RunError, match=r"3 times before it was ready.*\n  \| no such") as stop:
            die_often(one)
    assert stop.value.hint == HINT
    assert len(told) == HOPELESS - 1


def test_a_worker_that_was_ready_is_started_again_however_often_it_dies(tmp_path: Path):
    told: list[str] = []
    with Processes(tmp_path, os.environ) as processes:
        die_often(kept(processes, told, "raise SystemExit(9)", ready=lambda: True))
    assert len(told) == 10


def test_a_killed_worker_is_replaced_at_the_same_socket(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    """With a worker that only listens: what `attend` does is real, the model is not needed."""
    monkeypatch.setattr(serve_site, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(
        serve_site, "node_command", lambda *_, **__: python("import time; time.sleep(60)")
    )
    pids: list[int] = []

    def tell(line: str) -> None:
        said.append(line)
        if "worker ready" in line:
            (roll,) = (home.path / "logs").glob("running-*.json")
            pids.append(json.loads(roll.read_text())["running"][0]["pid"])
            os.kill(pids[0], signal.SIGKILL)

    monkeypatch.setattr(serve_site, "worker_command", listening)
    home, said = scene.join(), []
    serve_site.serve_site(home, tell=tell, seconds=3)
    assert said[2].startswith("worker ended with exit code -9: ")
    assert (home.path / "logs" / "worker-2.log").read_text() == "", "the socket was free again"
    assert all(map(gone, pids))
    assert not list((home.path / "logs").glob("running-*.json"))


def test_a_site_that_starts_on_a_full_disk_goes_on_when_there_is_room(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    """With a worker that listens if it can write and ends if it cannot."""
    monkeypatch.setattr(serve_site, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(space, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(space, "SPARE_BYTES", 1 << 20)
    monkeypatch.setattr(
        serve_site, "node_command", lambda *_, **__: python("import time; time.sleep(60)")
    )
    monkeypatch.setattr(serve_site, "worker_command", listening)
    with small_disk(scene.folder / "home", 4) as disk:
        home, said = scene.join(), []

        def tell(line: str) -> None:
            said.append(line)
            if "is full" in line:
                free(disk)

        fill(disk)
        serve_site.serve_site(home, tell=tell, seconds=1)
    assert "is full: 0.0 MB free, an answer needs at least" in said[0]
    assert "has room again" in said[1]
    assert said[2].startswith("starting the worker; what it does is in ")
    assert said[3].startswith("worker ready")


def test_a_worker_that_is_slow_is_waited_for_and_one_that_hangs_is_started_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    """The first hangs. The second takes three times as long as it may be silent, and says so."""
    monkeypatch.setattr(serve_site, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(
        serve_site, "node_command", lambda *_, **__: python("import time; time.sleep(60)")
    )
    hangs, limit = python("import time; time.sleep(60)"), 2.0
    commands = [hangs, hangs, None]

    def next_command(config: Path, desk: SitePlace) -> list[str]:
        slow = [*python(SLOW.format(each=limit / 2)), str(desk.socket)]
        return commands.pop(0) or slow

    monkeypatch.setattr(serve_site, "worker_command", next_command)
    home, said = scene.join(), []
    watchdog = home.config.watchdog.model_copy(update={"start": limit})
    config = home.config.model_copy(update={"watchdog": watchdog})
    serve_site.serve_site(home._replace(config=config), tell=said.append, seconds=0)
    assert sum("was not ready and wrote nothing to its log" in line for line in said) == 2
    assert said[-1].startswith("worker ready")
    assert (home.path / "logs" / "worker-3.log").read_text().count("moves so far") == 6


SLOW = """
import time
for _ in range(6):
    print("moves so far", flush=True)
    time.sleep({each})
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
time.sleep(60)
"""


def listening(config: Path, desk: SitePlace) -> list[str]:
    code = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])"
    return [*python(f"{code}; s.listen(); time.sleep(60)"), str(desk.socket)]


PLANTED = {
    "sitecustomize.py": "open('ran', 'w')\n",
    "usercustomize.py": "open('ran', 'w')\n",
    "argparse.py": "raise SystemExit('shadowed')\n",
    "pydantic.py": "raise SystemExit('shadowed')\n",
}


def test_nothing_in_the_working_folder_stands_for_pythons_own_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, text in PLANTED.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    desk = SitePlace("alpha", tmp_path / "home", tmp_path / "site.sock", 1)
    line = worker_command(Path("experiment.toml"), desk)
    assert line[line.index("--modules") + 1] == str(tmp_path)
    done = subprocess.run(
        line, env=environment(tmp_path / "flower"), capture_output=True, text=True
    )
    assert "experiment.toml" in done.stderr, "it came as far as its settings"
    assert "shadowed" not in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_module_in_the_working_folder_is_found_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "path", [*sys.path])
    place = ["--client", "a", "--socket", "s", "--home", "h", "--modules", str(tmp_path)]
    assert worker.main([str(tmp_path / "none.toml"), *place]) == ConfigError.exit_code
    assert sys.path[-1] == str(tmp_path)


def test_why_a_node_ended_is_told_by_its_code():
    assert "asked and nothing came" in serve_site.likely_cause(UNANSWERED)
    assert "did it hang" in serve_site.likely_cause(IDLE)
    assert "is the server down" in serve_site.likely_cause(1)
    assert serve_site.likely_cause(-signal.SIGKILL) == ""


def test_a_home_is_attended_once(scene: Scene):
    home = scene.join()
    code = (
        "import sys, pathlib, time; from fedse.store.lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1]), busy='', hint=''):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    command = [*python(code), str(home.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"is running from {home.path}") as refusal:
            serve_site.serve_site(home, tell=lambda _: None, seconds=0)
        assert f"then: fedse site start --home {home.path}" in refusal.value.hint
        other.kill()


def test_without_nginx_nothing_is_opened(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serve_federation.shutil, "which", lambda _: None)
    with (
        pytest.raises(MachineError, match="nginx is not installed"),
        serve_federation.serving(scene.federation, proxy=True),
    ):
        pass
    assert list((scene.federation.path / "logs").iterdir()) == []


def test_a_federation_is_not_started_twice(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serve_federation, "healthy", lambda *_: True)
    with (
        pytest.raises(MachineError, match=r"already answers at 127\.0\.0\.1:8000"),
        serve_federation.serving(scene.federation, proxy=False),
    ):
        pass


@pytest.mark.parametrize(
    ("code", "seconds", "expected"),
    [("raise SystemExit(3)", 60.0, 3), ("import time; time.sleep(60)", 0.0, -signal.SIGKILL)],
)
def test_a_submission_ends_by_itself_or_is_killed_when_its_time_is_over(
    scene: Scene, tmp_path: Path, code: str, seconds: float, expected: int
):
    with Processes(tmp_path, os.environ) as processes:
        server = serve_federation.Server(scene.federation, processes, lambda _: None)
        started = processes.start("run", python(code))
        assert server._code_of(started, seconds) == expected
        assert processes.running == []


def test_the_superlink_listens_on_the_loopback_address_only(scene: Scene):
    assert serve_federation.link_address(scene.federation) == "127.0.0.1:8000"
    assert not serve_federation.sync_nodes(scene.federation), "none runs"


def test_without_its_packages_a_verb_says_which(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fedse.errors.is_installed", lambda name: False)
    with pytest.raises(MachineError, match="needs flwr, cryptography") as refusal:
        require_flower()
    assert "fed-se[flower]" in refusal.value.hint


@pytest.mark.parametrize("module", ["fedse.cli.federation", "fedse.cli.site", "fedse.site.worker"])
def test_help_and_the_worker_need_neither_flower_nor_keys(module: str):
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"flwr", "cryptography", "torch"}
