"""A running server shows a renewed certificate, if it fits its key, and lets new sites in."""

import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.federation.folder import write_nginx
from fedse.federation.keys import make_identity
from fedse.federation.renewal import renew
from fedse.flower.ops.serve_federation import Server
from fedse.processes.group import Processes
from tests.federation.scene import NOW, Scene

NAMES = ("superlink", "superexec", "nginx")


@pytest.fixture
def server(scene: Scene, tmp_path: Path) -> Iterator[tuple[Server, Processes, list[str]]]:
    """With processes that only wait, under the names of the real ones."""
    told: list[str] = []
    # Under nohup it is ignored here, and would be by them; nginx has a handler of its own.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with Processes(tmp_path / "logs", {}) as processes:
        made = Server(scene.federation, processes, told.append)
        for name in NAMES:
            made.keep(name, [sys.executable, "-c", "import time; time.sleep(600)"], None, 30)
        yield made, processes, told
    signal.signal(signal.SIGHUP, before)


def signals(processes: Processes) -> dict[str, int]:
    """Which of the processes were ended, and by what."""
    return {
        one.name: -one.process.wait(30)
        for one in list(processes.running)
        if one.name != "superexec"
    }


def test_what_shows_the_certificate_reads_it_again_and_nothing_else_is_touched(
    scene: Scene, server: tuple[Server, Processes, list[str]]
):
    serving, processes, told = server
    serving.look()
    assert told == []
    renew(scene.federation, now=datetime.fromtimestamp(NOW, UTC))
    serving.look()
    assert signals(processes) == {"superlink": signal.SIGTERM, "nginx": signal.SIGHUP}
    (superexec,) = (one for one in processes.running if one.name == "superexec")
    assert superexec.process.poll() is None
    assert told == ["the server's certificate was renewed; nginx and the SuperLink read it now"]
    serving.look()
    assert told[1] == "superlink is restarted for the new certificate", "it did not crash"
    serving.look()
    assert [one.name for one in processes.running if one.name == "superlink"] == ["superlink"]


def test_more_sites_have_as_many_more_connections_and_nothing_is_restarted(
    scene: Scene, server: tuple[Server, Processes, list[str]]
):
    serving, processes, told = server
    write_nginx(scene.federation, sites=50)
    serving.look()
    (nginx,) = (one for one in processes.running if one.name == "nginx")
    assert nginx.process.wait(30) == -signal.SIGHUP
    assert [one.process.poll() for one in processes.running if one != nginx] == [None] * 2
    assert told == []


def test_a_certificate_that_does_not_fit_is_told_of_and_not_shown(
    scene: Scene, server: tuple[Server, Processes, list[str]], tmp_path: Path
):
    serving, processes, told = server
    other = make_identity(tmp_path / "other").certificate
    scene.federation.identity.certificate.write_bytes(other.read_bytes())
    for _ in range(3):
        serving.look()
    assert [one.process.poll() for one in processes.running] == [None] * 3
    (line,) = told
    assert line.startswith("warning: ")
    assert line.endswith(f"fedse federation renew --dir {scene.federation.path}")


def test_a_certificate_that_is_away_for_a_while_ends_nothing(
    scene: Scene, server: tuple[Server, Processes, list[str]]
):
    serving, processes, told = server
    file = scene.federation.identity.certificate
    data = file.read_bytes()
    file.unlink()
    for _ in range(3):
        serving.look()
    (line,) = told
    assert line.startswith("warning: ")
    file.write_bytes(data)
    serving.look()
    assert [one.process.poll() for one in processes.running] == [None] * 3
    assert len(told) == 1


def test_a_certificate_that_comes_before_its_key_is_shown_once_both_are_there(
    scene: Scene, server: tuple[Server, Processes, list[str]]
):
    serving, processes, told = server
    _, certificate, key = scene.federation.identity
    old = certificate.read_bytes(), key.read_bytes()
    renew(scene.federation, now=datetime.fromtimestamp(NOW, UTC), new_key=True)
    new = certificate.read_bytes(), key.read_bytes()
    certificate.write_bytes(old[0])
    key.write_bytes(old[1])
    serving.look()
    assert told == []
    certificate.write_bytes(new[0])
    serving.look()
    key.write_bytes(new[1])
    serving.look()
    assert signals(processes) == {"superlink": signal.SIGTERM, "nginx": signal.SIGHUP}
    assert told[0].startswith("warning: ")
    assert told[1:] == ["the server's certificate was renewed; nginx and the SuperLink read it now"]
