"""One small server for the tests that only ask it."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from fedse.adapters.base import base_path
from fedse.config.hardware import EngineSection
from fedse.engine.client import EngineClient
from fedse.ports import free_ports
from fedse.processes.group import Processes
from tests.needs import needs

ROOT = Path(__file__).parents[2]


def small_python(folder: Path) -> Path:
    """Stands for an interpreter with vLLM: whatever module is asked for, ours is started."""
    script = folder / "python-with-engine"
    script.write_text(
        f'#!/bin/sh\nshift 2\nPYTHONPATH="{ROOT}" exec "{sys.executable}" '
        '-m tests.engine.small_server "$@"\n'
    )
    script.chmod(0o755)
    return script


@contextmanager
def small_server(folder: Path, *arguments: str) -> Iterator[str]:
    """The address of a server that holds the tiny model."""
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    command = [str(small_python(folder)), "-m", "any", "--model", str(base_path("tiny"))]
    with Processes(folder / "logs", dict(os.environ)) as processes:
        processes.start("engine", [*command, "--port", str(port), *arguments])
        client = EngineClient(EngineSection(type="vllm", url=url))
        processes.wait_for("engine", client.answers, seconds=60)
        client.close()
        yield url


Connect = Callable[..., EngineClient]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes clients, which are closed when the test is over."""
    with ExitStack() as clients:

        def make(
            url: str, kind: type[EngineClient] = EngineClient, **changes: object
        ) -> EngineClient:
            given = {"type": "vllm", "url": url, "patience": 30.0, **changes}
            return clients.enter_context(closing(kind(EngineSection.model_validate(given))))

        yield make


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs("torch", "uvicorn")
    with small_server(tmp_path_factory.mktemp("engine")) as url:
        yield url
