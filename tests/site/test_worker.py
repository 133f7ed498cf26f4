"""The site worker: the same answer as in process, no request ends it, no text leaves it."""

import grp
import json
import logging
import os
import signal
import socket as sockets_of_os
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Client, Connection
from pathlib import Path

import pytest

from fedse.adapters.base import initial_adapter, spec_of
from fedse.config.file import dump_config
from fedse.errors import ConfigError, MachineError
from fedse.events import silent
from fedse.faults import Fault
from fedse.method.site import Site
from fedse.protocol import SiteReply
from fedse.site import socket_client, worker
from fedse.site.answer import serve
from fedse.site.listening import SocketAddress, listen
from fedse.site.socket_client import ask_site
from fedse.testing import open_toy_site, toy_adapter
from fedse.types import Adapter, ClientStats, Fitted
from tests.needs import needs
from tests.toys.canary_world import CANARY
from tests.toys.federation import NAMES, SPEC, ServeToy, first_request, toy_config

CONFIG = toy_config()
TIMES = {"rollout_seconds", "train_seconds", "eval_seconds"}


def ask(
    socket: Path, request: object, data: bytes, *, client: int | None = None, timeout: float = 20
) -> SiteReply:
    fields = request if isinstance(request, dict) else request.model_dump(mode="json")
    return ask_site(
        socket, fields, data, client=client, max_reply_bytes=SPEC.nbytes, timeout=timeout
    )


def untimed(stats: ClientStats) -> dict[str, object]:
    return stats.model_dump(exclude=TIMES)


def test_answers_the_same_bytes_as_in_process(serve_toy: ServeToy, tmp_path: Path, adapter):
    request = first_request(CONFIG, adapter)
    here = open_toy_site(CONFIG, "beta", tmp_path / "elsewhere", clock=time.time)
    expected = serve(request, adapter.to_bytes(), here, CONFIG, emit=silent)
    got = ask(serve_toy(CONFIG, "beta"), request, adapter.to_bytes())
    assert (got.fault, NAMES[got.client]) == (0, "beta")
    assert got.adapter == expected.adapter
    assert untimed(got.stats) == untimed(expected.stats)


def test_a_worker_of_several_clients_is_told_which(serve_toy: ServeToy, adapter: Adapter):
    socket = serve_toy(CONFIG, "alpha", "gamma")
    request = first_request(CONFIG, adapter)
    replies = [ask(socket, request, adapter.to_bytes(), client=i) for i in (0, 4)]
    assert [NAMES[reply.client] for reply in replies] == ["alpha", "gamma"]
    assert replies[0].adapter != replies[1].adapter
    assert ask(socket, request, adapter.to_bytes(), client=1).fault == 6
    assert ask(socket, request, adapter.to_bytes(), client=None).fault == 6


def test_the_same_request_twice_is_worked_on_once(serve_toy: ServeToy, adapter: Adapter):
    fits = []

    def counting(site: Site) -> Site:
        def fit(*given: object) -> Fitted:
            fits.append(1)
            return site.fit(*given)

        return replace(site, fit=fit)

    socket, request = serve_toy(CONFIG, "alpha", opened=counting), first_request(CONFIG, adapter)
    first, second = (ask(socket, request, adapter.to_bytes()) for _ in range(2))
    assert first == second
    assert len(fits) == 1


class Slow:
    """Training that waits to be let go on, and tells what was trained from."""

    def __init__(self) -> None:
        self.fits: list[str] = []
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, site: Site) -> Site:
        def fit(start: Adapter, *given: object) -> Fitted:
            self.fits.append(start.digest)
            self.begun.set()
            assert self.may_go_on.wait(20)
            return site.fit(start, *given)

        return replace(site, fit=fit)


def put(socket: Path, adapter: Adapter, *, round: int) -> Connection:
    """A request that waits for its turn; whoever holds the connection is its asker."""
    request = first_request(CONFIG, adapter, round=round).model_dump(mode="json")
    connection = Client(str(socket), family="AF_UNIX")
    connection.send_bytes(json.dumps({"client": None, "request": request}).encode())
    connection.send_bytes(adapter.to_bytes())
    return connection


def test_the_request_of_an_asker_who_is_gone_is_dropped(serve_toy: ServeToy, adapter, caplog):
    """One who is still there is served, and one who left in the middle finds the answer later."""
    caplog.set_level(logging.INFO, logger="fedse.site")
    slow, others = Slow(), [toy_adapter(SPEC, seed) for seed in (2, 3)]
    socket = serve_toy(CONFIG, "alpha", opened=slow)
    leaves_in_the_middle = put(socket, adapter, round=1)
    assert slow.begun.wait(20)
    leaves_before = put(socket, others[0], round=1)
    stays = put(socket, others[1], round=2)
    leaves_in_the_middle.close()
    leaves_before.close()
    slow.may_go_on.set()
    assert json.loads(stays.recv_bytes())["fault"] == 0
    assert stays.recv_bytes()
    stays.close()
    assert slow.fits == [adapter.digest, others[1].digest]
    assert "dropped: the caller for round 1 has hung up" in caplog.text
    assert ask(socket, first_request(CONFIG, adapter), adapter.to_bytes()).fault == 0
    assert len(slow.fits) == 2


def test_the_request_of_an_asker_who_was_killed_is_dropped(serve_toy: ServeToy, adapter: Adapter):
    slow, other = Slow(), toy_adapter(SPEC, 2)
    socket = serve_toy(CONFIG, "alpha", opened=slow)
    with put(socket, adapter, round=1) as first:
        assert slow.begun.wait(20)
        code = (
            "from pathlib import Path; from tests.site.test_worker import *\n"
            "held = put(Path(sys.argv[1]), toy_adapter(SPEC, 2), round=1)\n"
            "print('asked', flush=True); time.sleep(60)"
        )
        command = [sys.executable, "-c", code, str(socket)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asker:
            assert asker.stdout is not None
            assert asker.stdout.readline() == "asked\n"
            asker.kill()
        slow.may_go_on.set()
        assert json.loads(first.recv_bytes())["fault"] == 0
    assert ask(socket, first_request(CONFIG, other, round=2), other.to_bytes()).fault == 0
    assert slow.fits == [adapter.digest, other.digest]


def test_a_round_that_is_over_is_a_fault_and_the_log_says_why(serve_toy: ServeToy, adapter, caplog):
    caplog.set_level(logging.INFO, logger="fedse.site")
    socket, other = serve_toy(CONFIG, "alpha"), toy_adapter(SPEC, 2)
    assert ask(socket, first_request(CONFIG, adapter, round=2), adapter.to_bytes()).fault == 0
    assert ask(socket, first_request(CONFIG, other, round=1), other.to_bytes()).fault == 35
    assert "asked for round 1" in caplog.text
    assert "the newest round finished here is 2" in caplog.text
    assert ask(socket, first_request(CONFIG, other, round=2), other.to_bytes()).fault == 0


def test_an_evaluation_without_training_has_no_adapter(serve_toy: ServeToy, adapter: Adapter):
    request = first_request(CONFIG, adapter, kind="evaluate")
    got = ask(serve_toy(CONFIG, "alpha"), request, adapter.to_bytes())
    assert (got.fault, got.adapter, got.stats.loss) == (0, None, None)
    assert got.stats.eval_played == CONFIG.eval.episodes


BAD_REQUESTS = {
    "another experiment": {"experiment": "other"},
    "other settings": {"agreed": "0" * 64},
    "another base model": {"spec": "0" * 64},
    "another adapter's digest": {"adapter": "0" * 64},
    "a round that is text": {"round": "1"},
    "a key too many": {"note": "x"},
    "no round": {"round": None},
}


@pytest.mark.parametrize("changes", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_bad_request_is_a_fault_and_the_worker_lives(serve_toy: ServeToy, adapter, changes):
    socket, good = serve_toy(CONFIG, "alpha"), first_request(CONFIG, adapter)
    bad = {**good.model_dump(mode="json"), **changes}
    assert ask(socket, bad, adapter.to_bytes()).fault == 6
    assert ask(socket, good, adapter.to_bytes()).fault == 0


def test_bytes_that_are_no_adapter_are_a_fault(serve_toy: ServeToy, adapter: Adapter):
    socket, request = serve_toy(CONFIG, "alpha"), first_request(CONFIG, adapter)
    assert ask(socket, request, b"").fault == 5
    assert ask(socket, request, bytes(SPEC.nbytes)).fault == 5
    assert ask(socket, request, adapter.to_bytes()).fault == 0


@pytest.mark.parametrize("size", [SPEC.nbytes + 1, 50_000_000])
def test_an_oversized_adapter_is_a_fault_and_is_not_read(serve_toy: ServeToy, adapter, size):
    socket, request = serve_toy(CONFIG, "alpha"), first_request(CONFIG, adapter)
    # The sender hears why, also if it is still sending when the worker hangs up.
    assert {ask(socket, request, bytes(size)).fault for _ in range(5)} == {6}
    assert ask(socket, request, adapter.to_bytes()).fault == 0


FRAMES = {
    "not JSON": [b"{", b""],
    "not text": [b"\xff\xfe", b""],
    "a list": [b"[]", b""],
    "other keys": [b'{"request": {}}', b""],
    "a client that is text": [b'{"client": "alpha", "request": {}}', b""],
    "deep nesting": [b"[" * 60_000, b""],
    "too long": [b" " * 70_000, b""],
    "one frame": [b"{}"],
    "nothing": [],
}


@pytest.mark.parametrize("frames", FRAMES.values(), ids=FRAMES.keys())
def test_broken_frames_do_not_end_the_worker(serve_toy: ServeToy, adapter: Adapter, frames):
    socket = serve_toy(CONFIG, "alpha")
    # The worker may hang up on the first frame while the second is still on its way.
    with Client(str(socket), family="AF_UNIX") as connection, suppress(BrokenPipeError):
        for frame in frames:
            connection.send_bytes(frame)
    assert ask(socket, first_request(CONFIG, adapter), adapter.to_bytes()).fault == 0


def test_a_peer_that_falls_silent_is_let_go(serve_toy: ServeToy, adapter, monkeypatch):
    monkeypatch.setattr(socket_client, "FRAME_SECONDS", 1)
    socket = serve_toy(CONFIG, "alpha")
    with sockets_of_os.socket(sockets_of_os.AF_UNIX) as half:
        half.connect(str(socket))
        half.sendall(b"\x00\x00")
        assert ask(socket, first_request(CONFIG, adapter), adapter.to_bytes()).fault == 0


def test_what_broke_stays_in_the_sites_log(serve_toy: ServeToy, adapter: Adapter, caplog):
    caplog.set_level(logging.INFO, logger="fedse.site")
    config = toy_config(env="tests.toys.canary_world:CanaryWorld", breaks=True)
    socket = serve_toy(config, "alpha")
    request = json.dumps(
        {
            "client": None,
            "request": first_request(config, adapter).model_dump(mode="json"),
        }
    )
    with Client(str(socket), family="AF_UNIX") as connection:
        connection.send_bytes(request.encode())
        connection.send_bytes(adapter.to_bytes())
        said, sent = connection.recv_bytes(), connection.recv_bytes()
    assert json.loads(said)["fault"] == 4
    assert CANARY.encode() not in said + sent
    assert CANARY in caplog.text


def test_a_site_that_cannot_be_reached_is_a_fault(sockets: Path, adapter: Adapter):
    request = first_request(CONFIG, adapter)
    assert ask(sockets / "none.sock", request, adapter.to_bytes()).fault == Fault.UNREACHABLE
    listener = listen(SocketAddress(sockets / "own" / "mute.sock"))
    got = ask(sockets / "own" / "mute.sock", request, adapter.to_bytes(), timeout=0.2)
    listener.close()
    assert got.fault == Fault.SILENT


def test_the_socket_is_for_its_owner_only(sockets: Path):
    path = sockets / "own" / "worker.sock"
    with listen(SocketAddress(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        with pytest.raises(MachineError, match="already listens"):
            listen(SocketAddress(path))


def test_a_group_may_be_let_in_so_that_the_app_runs_as_another_user(sockets: Path):
    group = grp.getgrgid(os.getgid()).gr_name
    path = sockets / "own" / "worker.sock"
    with listen(SocketAddress(path, group)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o710
        assert path.stat().st_gid == path.parent.stat().st_gid == os.getgid()


def test_a_socket_that_a_killed_worker_left_is_replaced(sockets: Path):
    path = sockets / "dead.sock"
    with sockets_of_os.socket(sockets_of_os.AF_UNIX) as dead:
        dead.bind(str(path))
    with listen(SocketAddress(path)):
        assert path.exists()


def test_a_folder_that_others_can_enter_is_refused(sockets: Path):
    sockets.chmod(0o755)
    with pytest.raises(ConfigError, match="mode 755, expected 700"):
        listen(SocketAddress(sockets / "worker.sock"))


def test_a_path_too_long_for_a_socket_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="Linux allows 107"):
        listen(SocketAddress(tmp_path / ("x" * 100)))


def has_torch(pid: int) -> bool:
    """Whether a library of torch's is in the process."""
    return "libtorch" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.parametrize("when", ["now", "later"])
def test_a_real_worker_starts_answers_and_ends(sockets: Path, tmp_path: Path, when: str):
    """One that opens its site later has no torch until it is asked."""
    needs("torch")
    config = toy_config()
    config = config.model_copy(
        update={"rollout": config.rollout.model_copy(update={"new_tokens": 4, "episodes": 2})}
    )
    (tmp_path / "config.toml").write_text(dump_config(config))
    path = sockets / "alpha.sock"
    where = ["--client", "alpha", "--socket", str(path), "--home", str(tmp_path / "home")]
    command = [sys.executable, "-m", "fedse.site.worker", str(tmp_path / "config.toml"), *where]
    command += ["--open", when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"ready {path}\n"
            assert has_torch(process.pid) == (when == "now")
            current = initial_adapter(spec_of(config), seed=0)
            request = first_request(config, current, kind="evaluate").model_dump(mode="json")
            got = ask_site(
                path, request, current.to_bytes(), client=None, max_reply_bytes=0, timeout=60
            )
            assert (got.fault, got.stats.eval_played) == (0, 4)
            assert has_torch(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert not path.exists()
    assert stat.S_IMODE((tmp_path / "home" / "worker.log").stat().st_mode) == 0o600


def test_a_wrong_client_is_named_with_the_right_ones(tmp_path: Path, sockets: Path, capsys):
    (tmp_path / "config.toml").write_text(dump_config(CONFIG))
    where = ["--socket", str(sockets / "x.sock"), "--home", str(tmp_path / "home")]
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    code = worker.main([str(tmp_path / "config.toml"), "--client", "zeta", *where])
    signal.signal(signal.SIGTERM, before[0])
    signal.signal(signal.SIGINT, before[1])
    assert code == 2
    assert "client zeta is not in this experiment; its clients are alpha, beta" in (
        capsys.readouterr().err
    )
