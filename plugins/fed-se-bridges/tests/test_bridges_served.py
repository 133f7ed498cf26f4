"""The bridges to servers, on the real servers where this machine has them.

FEDSE_OPENENV_PYTHON   a Python with the openenv package; the tests start the server with it
FEDSE_AGENTGYM_URL     a running AgentGym TextCraft server
"""

import json
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fedse.envs.base import Env, Step, make_env
from fedse.envs.conformance.check import check_env
from fedse.errors import ConfigError, EnvError
from fedse.ports import free_ports
from fedse_bridges.agentgym_http import AgentGym
from fedse_bridges.http_json import MAX_ANSWER, ask
from fedse_bridges.openenv_ws import OpenEnv
from tests.needs import optional

HERE = Path(__file__).parent
OPENENV = "openenv"
AGENTGYM = "agentgym"
PYTHON = os.environ.get("FEDSE_OPENENV_PYTHON", "")
URL = os.environ.get("FEDSE_AGENTGYM_URL", "")
GUESSES = [*map(str, range(1, 9)), "Thought: why not\nAction: 5", "dog"]
NUMBERED: dict[str, Any] = {"train": [0, 100], "test": [100, 120]}


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


@contextmanager
def openenv_server() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A real OpenEnv server, ended on leaving."""
    (port,) = free_ports(1)
    process = subprocess.Popen([PYTHON, str(HERE / "openenv_server.py"), str(port)])
    try:
        for _ in range(120):
            with suppress(EnvError):
                ask(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            assert process.poll() is None, "the OpenEnv server ended at start"
            time.sleep(0.5)
        yield f"ws://127.0.0.1:{port}/ws", process
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture(scope="module")
def guess_url() -> Iterator[str]:
    with openenv_server() as (url, _):
        yield url


def wins(env: Env, split: Any, actions: list[str]) -> Step:
    step = env.reset(env.tasks(split)[0], seed=0)
    for action in actions:
        step = step if step.done else env.step(action)
    return step


@optional("openenv")
class TestOpenEnv:
    @pytest.mark.parametrize("more", [{}, {"task_api": "guess"}])
    def test_it_keeps_every_promise(self, guess_url: str, more: dict[str, Any]) -> None:
        options = {"url": guess_url, "action": "guess", "max_turns": 20, **more}
        report = check_env(OPENENV, options, tasks=5, actions=GUESSES)
        assert report.failed == (), report.checks
        assert {c.name for c in report.checks if c.skipped} == {"free asking", "good expert"}

    def test_the_task_api_gives_the_servers_own_tasks(self, guess_url: str) -> None:
        env = make_env(OPENENV, {"url": guess_url, "action": "guess", "task_api": "guess"})
        assert (len(env.tasks("train")), len(env.tasks("test"))) == (12, 5)
        won = wins(env, "test", GUESSES)
        assert (won.observation, won.success, won.reward) == ("Right.", True, 1.0)
        env.close()

    def test_an_action_function_says_what_no_action_is(self, guess_url: str) -> None:
        env = make_env(OPENENV, {"url": guess_url, "action": "bridge_functions:low"})
        env.reset(env.tasks("train")[0], seed=0)
        assert env.step("crash").observation.startswith("That is no valid action")
        env.close()

    def test_a_field_the_server_does_not_have_is_an_error(self, guess_url: str) -> None:
        env = make_env(OPENENV, {"url": guess_url, "action": "word"})
        env.reset(env.tasks("train")[0], seed=0)
        with pytest.raises(EnvError, match="other action fields than option action says"):
            env.step("5")

    @pytest.mark.parametrize(("said", "cause"), [("crash", "crashed as asked"), ("hang", "in 1 s")])
    def test_a_failing_or_late_step_breaks_only_its_episode(
        self, guess_url: str, said: str, cause: str
    ) -> None:
        env = make_env(OPENENV, {"url": guess_url, "action": "guess", "timeout": 1.0})
        task = env.tasks("train")[0]
        env.reset(task, seed=0)
        with pytest.raises(EnvError, match=cause):
            env.step(said)
        with pytest.raises(EnvError, match="no episode is open"):
            env.step("5")
        assert not env.reset(task, seed=0).done
        env.close()

    def test_a_full_server_is_told_apart(self, guess_url: str) -> None:
        envs = [OpenEnv(url=guess_url, action="guess") for _ in range(101)]
        with pytest.raises(EnvError, match="CAPACITY_REACHED") as caught:
            _ = [env.reset(env.tasks("train")[0], seed=0) for env in envs]
        assert "max_concurrent_envs" in caught.value.hint
        for env in envs:
            env.close()

    def test_a_killed_server_breaks_the_episode(self) -> None:
        with openenv_server() as (url, process):
            env = make_env(OPENENV, {"url": url, "action": "guess", "timeout": 5.0})
            env.reset(env.tasks("train")[0], seed=0)
            process.kill()
            with pytest.raises(EnvError, match="broke off in step"):
                env.step("5")
            with pytest.raises(EnvError, match="no OpenEnv server answers"):
                env.reset(env.tasks("train")[0], seed=0)


@optional("agentgym")
class TestAgentGym:
    ACTIONS = ("inventory", "get 1 oak log", "Action: get 2 cobblestone", "dance")

    def test_it_keeps_every_promise(self) -> None:
        report = check_env(AGENTGYM, {"url": URL, **NUMBERED}, tasks=3, actions=self.ACTIONS)
        assert report.failed == (), report.checks

    def test_a_task_can_be_solved(self) -> None:
        env = make_env(AGENTGYM, {"url": URL, **NUMBERED})
        won = []
        for task in env.tasks("train")[:30]:
            told = env.reset(task, seed=0).observation
            goal = re.findall(r"Goal: craft (.*)\.", told)[0]
            for recipe, inputs in re.findall(rf"(craft \d+ {goal} using (.*))", told)[:1]:
                for piece in inputs.split(", "):
                    env.step(f"get {piece}")
                won.append(env.step(recipe).success)
        assert any(won)
        env.reset(task, seed=0)
        assert not env.step("inventory").success
        env.close()

    def test_a_forgotten_id_breaks_the_episode_or_is_answered(self) -> None:
        for answer_errors in (False, True):
            env = AgentGym(url=URL, answer_errors=answer_errors, **NUMBERED)
            env.reset(env.tasks("train")[0], seed=0)
            ask(f"{URL}/close", {"id": env._id}, timeout=5)
            if answer_errors:
                assert "is not valid" in env.step("inventory").observation
            else:
                with pytest.raises(EnvError, match=r"failed in step.*is not valid"):
                    env.step("inventory")
                assert env.reset(env.tasks("train")[0], seed=0).observation


SAID = {
    "/json": (200, b'{"x": [1, "\xc3\xa9"]}'),
    "/text": (200, b"hello"),
    "/broken": (500, b"no " + b"x" * 300),
    "/largest": (200, b'"' + b"x" * (MAX_ANSWER - 2) + b'"'),
    "/too-large": (200, b'"' + b"x" * (MAX_ANSWER - 1) + b'"'),
    "/too-large-and-broken": (500, b"x" * (MAX_ANSWER + 1)),
}


class Answers(BaseHTTPRequestHandler):
    """What `SAID` has for the path; a POST is answered with the method, the kind and the body."""

    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self.send_response(307)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
            return
        self._say(*SAID.get(self.path, (404, b"nothing")))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode("ascii")
        got = [self.command, self.headers["Content-Type"], body]
        self._say(200, json.dumps(got).encode())

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def answering() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


class TestHttp:
    def test_a_question_and_its_answer(self, answering: str) -> None:
        assert ask(f"http://{answering}/json", timeout=5) == {"x": [1, "é"]}
        got = ask(f"http://{answering}/step", {"action": "\ud800é"}, timeout=5)
        assert got == ["POST", "application/json", '{"action": "\\ud800\\u00e9"}']

    def test_no_proxy_is_asked(self, answering: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{free_ports(1)[0]}")
        assert ask(f"http://{answering}/json", timeout=5)

    @pytest.mark.parametrize(
        ("path", "got"),
        [
            ("/broken", "got HTTP 500: no " + "x" * 197),
            ("/nowhere", "got HTTP 404: nothing"),
            ("/text", "got JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
        ],
    )
    def test_what_is_no_json_answer_is_told(self, answering: str, path: str, got: str) -> None:
        url = f"http://{answering}{path}"
        with pytest.raises(EnvError) as caught:
            ask(url, timeout=5)
        assert str(caught.value) == f"environment server: expected a JSON answer from {url}, {got}"
        assert caught.value.hint.endswith(f"curl -sS {url}")

    def test_an_answer_is_read_up_to_a_bound(self, answering: str) -> None:
        assert len(ask(f"http://{answering}/largest", timeout=5)) == MAX_ANSWER - 2
        for path in ("/too-large", "/too-large-and-broken"):
            with pytest.raises(EnvError, match=f"got ValueError: more than {MAX_ANSWER} bytes"):
                ask(f"http://{answering}{path}", timeout=5)

    def test_an_answer_without_an_end_is_not_read_to_its_end(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def pour() -> None:
                line, _ = server.accept()
                with line, suppress(ConnectionError):
                    line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    while True:
                        line.sendall(b"x" * 65536)

            threading.Thread(target=pour, daemon=True).start()
            with pytest.raises(EnvError, match=f"more than {MAX_ANSWER} bytes"):
                ask(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=5)

    def test_no_redirect_is_followed(self, answering: str) -> None:
        """Not even to the same server: the option url names the right address."""
        there = f"http://{answering}/json"
        with pytest.raises(EnvError, match=f"got a redirect to {there}"):
            ask(f"http://{answering}/to/{there}", timeout=5)
        with socket.create_server(("127.0.0.1", 0)) as elsewhere:
            elsewhere.setblocking(False)
            port = elsewhere.getsockname()[1]
            env = OpenEnv(url=f"ws://{answering}/to/ws://127.0.0.1:{port}/ws", timeout=5)
            with pytest.raises(EnvError, match="no OpenEnv server answers"):
                env.reset(env.tasks("train")[0], seed=0)
            with pytest.raises(BlockingIOError):
                elsewhere.accept()

    @pytest.mark.parametrize("url", ["http://[", "nothing://x", "http://127.0.0.1:99999"])
    def test_an_address_that_is_none_is_told(self, url: str) -> None:
        with pytest.raises(EnvError, match="expected a JSON answer from"):
            ask(url, timeout=5)


class TestWithoutServer:
    def test_nobody_there(self) -> None:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))  # and nobody listens
            port = held.getsockname()[1]
            openenv = OpenEnv(url=f"ws://127.0.0.1:{port}/ws")
            agentgym = AgentGym(url=f"http://127.0.0.1:{port}", **NUMBERED)
            for env in (openenv, agentgym):
                with pytest.raises(EnvError, match="refused"):
                    env.reset(env.tasks("train")[0], seed=0)
                env.close()

    def test_a_silent_server_is_not_waited_for(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            openenv = OpenEnv(url=f"ws://127.0.0.1:{port}/ws", timeout=0.5)
            agentgym = AgentGym(url=f"http://127.0.0.1:{port}", timeout=0.5, **NUMBERED)
            for env in (openenv, agentgym):
                # It says nothing for ever; only the bridge can end this.
                with pytest.raises(EnvError, match="timed out"):
                    env.reset(env.tasks("train")[0], seed=0)

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            (OPENENV, {"url": "http://127.0.0.1:1"}),
            (AGENTGYM, {"url": "127.0.0.1:1", **NUMBERED}),
            (AGENTGYM, {"url": "http://127.0.0.1:1", "train": [0, 10], "test": [9, 12]}),
            (AGENTGYM, {"url": "http://127.0.0.1:1", "train": [5], "test": [9, 12]}),
        ],
    )
    def test_a_wrong_option_is_refused(self, name: str, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match=r"option (url|train|test) must be"):
            make_env(name, options)
