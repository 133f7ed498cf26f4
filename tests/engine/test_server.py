"""A server that fedse starts: its command line, and that a run outlives its death."""

import os
import signal
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.needs import needs

needs("torch", "uvicorn", "httpx", "psutil")

import psutil

from fedse.adapters.base import base_path
from fedse.agent.tokens import load_encoder
from fedse.config.file import parse_config
from fedse.config.schema import Config
from fedse.engine.client import URL_VARIABLE, EngineClient
from fedse.engine.loaded import LoraAdapters
from fedse.engine.policy import ServedPolicy
from fedse.engine.server import (
    engine_if_needed,
    own_socket,
    running_engine,
    server_command,
    server_environment,
)
from fedse.envs.base import make_env
from fedse.errors import ConfigError, MachineError, RunError
from fedse.method.own_pace import rollout_at_own_pace
from fedse.method.rollout import Chunk, choose_games, rollout
from fedse.processes.orphans import ProcessList
from fedse.types import Trajectory
from tests.agent.test_hf import adapter, policy
from tests.engine.conftest import small_python

MAZE = partial(make_env, "maze", {"prompt": "short"})


def experiment(engine: str = "", more: str = "") -> Config:
    text = f'[engine]\ntype = "vllm"\n{engine}\n{more}\n[[clients]]\nname = "a"\nenv = "maze"\n'
    return parse_config(text, "test")


def test_lora_needs_room_for_the_rank_and_merged_weights_the_routes_that_replace_them():
    at = Path("/own/engine.sock")
    lora = server_command(experiment('python = "sh"', "[model]\nrank = 12"), Path("/m"), at)
    assert lora[lora.index("--max-lora-rank") + 1] == "16"
    assert lora[lora.index("--uds") + 1] == "/own/engine.sock"
    assert lora[lora.index("--kv-cache-memory-bytes") + 1] == "2000000000"
    merged = server_command(experiment('python = "sh"\nadapters = "merged"'), Path("/m"), at)
    assert "--enable-lora" not in merged
    assert "--enable-scale-out" in merged
    assert server_command(experiment('python = "sh"\narguments = ["--x"]'), Path(), at)[-1] == "--x"


def test_the_server_has_a_python_of_its_own():
    given = {"PYTHONPATH": "here", "VIRTUAL_ENV": "here", "PATH": "p", "HF_HUB_OFFLINE": "0"}
    made = server_environment(given)
    assert "PYTHONPATH" not in made
    assert "VIRTUAL_ENV" not in made
    assert (made["PATH"], made["HF_HUB_OFFLINE"]) == ("p", "1")


def test_without_an_address_and_without_an_interpreter_nothing_is_started(tmp_path: Path):
    with (
        pytest.raises(ConfigError, match=r"needs engine\.url .* or engine\.python"),
        engine_if_needed(experiment(), tmp_path, tell=print),
    ):
        pass
    with (
        pytest.raises(MachineError, match="it is not a program"),
        engine_if_needed(experiment('python = "no-such-python"'), tmp_path, tell=print),
    ):
        pass


def test_a_server_that_cannot_start_says_why(tmp_path: Path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such model >&2\nexit 3\n")
    broken.chmod(0o755)
    config = experiment(f'python = "{broken}"')
    with (
        pytest.raises(RunError, match=r"ended 3 times before it was ready[\s\S]*no such model"),
        running_engine(config, base_path("tiny"), tmp_path / "logs", tell=lambda _: None),
    ):
        pass


def ports_of(logs: Path) -> list[tuple[str, int]]:
    """Where the server and what it started listen."""
    leader = psutil.Process(server_process(logs))
    family = [leader, *leader.children(recursive=True)]
    open_at = [c for process in family for c in process.net_connections("inet")]
    return [(c.laddr.ip, c.laddr.port) for c in open_at if c.status == psutil.CONN_LISTEN]


def test_no_other_user_reaches_a_server_that_fedse_starts(tmp_path: Path):
    """Not even where the folder of its socket was open before."""
    config, folder = experiment(f'python = "{small_python(tmp_path)}"'), tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    base, logs = base_path("tiny"), tmp_path / "logs"
    for given in (None, folder):
        with running_engine(config, base, logs, tell=print, folder=given) as url:
            socket = Path(url.removeprefix("unix:"))
            assert socket.parent.stat().st_mode & 0o777 == 0o700
            assert socket.is_socket()
            assert ports_of(logs) == []
            with closing(EngineClient(config.engine)) as client:
                assert list(client.models()) == ["base"]


def test_a_socket_path_that_linux_cannot_have_is_refused(tmp_path: Path):
    assert own_socket(tmp_path).parent == tmp_path
    with pytest.raises(ConfigError, match=r"Linux allows 107"):
        own_socket(Path("/") / ("x" * 96))


class KilledOnce:
    """Keeps games; the server is killed, by the kernel, when the second one is kept."""

    def __init__(self, logs: Path) -> None:
        self.kept: dict[int, list[Trajectory]] = {}
        self.killed = 0
        self._logs = logs

    def stored(self, chunk: Chunk) -> list[Trajectory] | None:
        return self.kept.get(chunk.start)

    def store(self, chunk: Chunk, played: list[Trajectory]) -> None:
        self.kept[chunk.start] = played
        if len(self.kept) == 2:
            self.killed = server_process(self._logs)
            os.kill(self.killed, signal.SIGKILL)


def server_process(logs: Path) -> int:
    (roll,) = logs.glob("running-*.json")
    return ProcessList.model_validate_json(roll.read_text()).running[0].pid


@pytest.mark.slow
def test_a_killed_server_is_started_again_and_no_finished_game_is_played_twice(tmp_path: Path):
    begun: list[str] = []
    lock = threading.Lock()

    def counted() -> object:
        env = MAZE()
        reset = env.reset

        def note(task, *, seed):
            with lock:
                begun.append(task.id)
            return reset(task, seed=seed)

        env.reset = note
        return env

    games = choose_games(MAZE().tasks("train"), 6, seed=3)
    config = experiment(f'python = "{small_python(tmp_path)}"\npatience = 60.0')
    told: list[str] = []
    keep = KilledOnce(tmp_path / "logs")
    with running_engine(config, base_path("tiny"), tmp_path / "logs", tell=told.append) as url:
        assert os.environ[URL_VARIABLE] == url
        client = EngineClient(config.engine)
        acting = ServedPolicy(
            LoraAdapters(client, tmp_path / "own"),
            load_encoder(base_path("tiny")),
            adapter(1),
            temperature=0.0,
            context=512,
            new_tokens=6,
        )
        played = rollout_at_own_pace(
            games,
            counted,
            acting,
            round=1,
            batch=8,
            seed=3,
            keep=keep,
            in_flight=2,
            step_seconds=30,
        )
        client.close()
    assert keep.killed
    assert len(told) == 1
    assert "exit code -9" in told[0]
    assert sorted(begun) == sorted(game.task.id for game in games)
    assert played == rollout(games, MAZE, policy(temperature=0.0), round=1, batch=8, seed=3)
    assert URL_VARIABLE not in os.environ
