"""A real vLLM with real weights; research/real_engine.sh installs both and runs this.

FEDSE_VLLM_PYTHON=~/vllm/bin/python FEDSE_MODELS=~/models pytest tests/engine/test_real_vllm.py
"""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs, optional

needs("torch", "httpx", "psutil")

import httpx
import psutil

from fedse.adapters.base import base_path, initial_adapter, spec_of
from fedse.agent.policy import Dialogue
from fedse.agent.tokens import load_encoder
from fedse.config.file import parse_config
from fedse.config.schema import Config
from fedse.engine.check import check_engine, own_logprobs, probe
from fedse.engine.client import EngineClient
from fedse.engine.policy import ServedPolicy
from fedse.engine.server import running_engine
from fedse.engine.ways_in import acting_adapters
from fedse.envs.base import make_env
from fedse.method.own_pace import rollout_at_own_pace
from fedse.method.rollout import Chunk, choose_games
from fedse.types import Adapter, Trajectory
from tests.engine.test_server import ports_of, server_process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    optional("vllm"),
    optional("smollm2-135m"),
]

EXPERIMENT = """
[model]
base = "smollm2-135m"

[rollout]
context = 1024
new_tokens = 16

[engine]
type = "vllm"
python = "{python}"
adapters = "{mode}"
in_flight = 8
memory = 1.0
patience = 900.0

[[clients]]
name = "a"
env = "maze"
"""
MAZE = partial(make_env, "maze", {})


class Running:
    """A real server, and what is needed to ask it."""

    def __init__(self, config: Config, client: EngineClient, logs: Path, told: list[str]) -> None:
        self.config, self.client, self.logs, self.told = config, client, logs, told
        self.base, self.spec = base_path(config.model.base), spec_of(config)
        self.encoder = load_encoder(self.base)
        self.acting = acting_adapters(client, config.engine, self.base, logs.parent / "adapters")

    def policy(self, adapter: Adapter) -> ServedPolicy:
        return ServedPolicy(
            self.acting, self.encoder, adapter, temperature=0.0, context=1024, new_tokens=16
        )

    def loud(self, seed: int) -> Adapter:
        noise = np.random.default_rng(seed).normal(0.0, 0.03, self.spec.size)
        start = initial_adapter(self.spec, seed=seed).vector
        return Adapter(self.spec, (start + noise).astype(np.float32))


@pytest.fixture(scope="module", params=["merged", "lora"])
def running(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    python = os.environ["FEDSE_VLLM_PYTHON"]
    config = parse_config(EXPERIMENT.format(python=python, mode=request.param), "test")
    logs, told = tmp_path_factory.mktemp("vllm") / "logs", list[str]()
    base = base_path(config.model.base)
    with (
        running_engine(config, base, logs, tell=told.append),
        closing(EngineClient(config.engine)) as client,
    ):
        yield Running(config, client, logs, told)


def test_it_is_what_the_experiment_needs(running: Running):
    here = running
    expected = own_logprobs(here.base, here.spec, probe(here.encoder))
    checks = check_engine(here.config, here.spec, here.encoder, here.client, here.acting, expected)
    found = list(checks)
    print(*found, sep="\n")
    assert len(found) == 4
    assert all(one.ok for one in found)


def test_no_route_of_it_is_at_a_port(running: Running):
    """Its torch listens, for processes of its own, and speaks no HTTP."""
    assert running.client.url.startswith("unix:/")
    ports = ports_of(running.logs)
    print(*ports, sep="\n")
    for _, port in ports:
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/health", timeout=2.0)


def test_two_adapters_answer_differently_and_each_as_before(running: Running):
    question = [Dialogue("", (), text) for text in ("Where is the key?", "Name a colour.")]
    one, other = (running.policy(running.loud(seed)) for seed in (1, 2))
    first, second = one.act(question, seed=1), other.act(question, seed=1)
    assert first != second
    assert (one.act(question, seed=1), other.act(question, seed=1)) == (first, second)


class Killing:
    """The server's processes are killed when the second game is kept."""

    def __init__(self, logs: Path) -> None:
        self.kept: dict[int, list[Trajectory]] = {}
        self._logs = logs

    def stored(self, chunk: Chunk) -> list[Trajectory] | None:
        return self.kept.get(chunk.start)

    def store(self, chunk: Chunk, played: list[Trajectory]) -> None:
        self.kept[chunk.start] = played
        if len(self.kept) == 2:
            leader = psutil.Process(server_process(self._logs))
            for process in [*leader.children(recursive=True), leader]:
                process.send_signal(signal.SIGKILL)


def test_killed_in_the_middle_of_a_rollout_it_comes_back_and_nothing_is_lost(running: Running):
    games, keep = choose_games(MAZE().tasks("train"), 6, seed=3), Killing(running.logs)
    played = rollout_at_own_pace(
        games,
        MAZE,
        running.policy(running.loud(1)),
        round=1,
        batch=8,
        max_turns=4,
        seed=3,
        keep=keep,
        in_flight=3,
        step_seconds=60,
    )
    assert [episode.task for episode in played] == [game.task for game in games]
    assert all(episode.outcome != "broken" for episode in played)
    assert [keep.kept[i][0] for i in range(len(games))] == played
    assert len(running.told) == 1
