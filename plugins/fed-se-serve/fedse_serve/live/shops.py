"""Three shops of the environment `desk`, each with a service, on one engine and one clock."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from fedse.adapters.base import base_path
from fedse.agent.tokens import load_encoder
from fedse.config.redaction import RedactSection
from fedse.config.storage import StorageSection
from fedse.engine.client import KEY_VARIABLE
from fedse.ports import free_ports
from fedse.seeds import seed_of
from fedse_serve.live.customers import Thumb, staff_logs
from fedse_serve.place import Place
from fedse_serve.service import Service, running
from fedse_serve.settings import read_settings

SHOPS = {
    "books": ("late", "unwanted"),
    "lamps": ("late", "unwanted"),
    "shoes": ("damaged", "wrong"),
}
"""Each shop with the cases that its staff's conversations are about; customers come with all."""
LOGS = 8
"""Conversations of its staff that a shop begins with."""
DAY = 86_400.0
# A dozen thumbs a day prove little: a candidate serves half of the customers and takes over as soon
# as its thumbs look no worse. What is slow on a busy machine says nothing about an adapter. This
# agent has no tools of the API, does not ask and does not refuse.
SETTINGS = """
[service]
engine = "{engine}"
idle_minutes = 5.0
held_out = 0.1
[service.metrics.thumb]
type = "boolean"
wait_days = 2.0
[service.canary]
shares = [0.5, 1.0]
alpha = 0.1
least = 3
promote_delta = 0.3
promote_alpha = 0.9
[service.canary.guards]
invalid_tool_calls = 1.0
refusals = 1.0
questions = 1.0
too_slow = 1.0
"""


class Clock:
    """Simulated seconds since 1970: days go by in minutes, and end before the real now."""

    def __init__(self, days: int) -> None:
        self.now = time.time() - (days + 3) * DAY

    def __call__(self) -> float:
        return self.now


class Shop(NamedTuple):
    name: str
    service: Service
    url: str
    waiting: list[Thumb]
    """Thumbs that will come."""


class RunningEngine(NamedTuple):
    url: str
    environ: Mapping[str, str]
    """With the key that it asks for."""


@contextmanager
def engine_running(base: str) -> Iterator[RunningEngine]:
    """An engine for the base model answers in a process of its own, to who has its key."""
    (port,) = free_ports(1)
    environ = {**os.environ, KEY_VARIABLE: secrets.token_urlsafe(24)}
    command = [sys.executable, "-m", "fedse_serve.own_engine", base, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()  # it says one line when it answers
            yield RunningEngine(f"http://127.0.0.1:{port}", environ)
        finally:
            process.terminate()


async def open_shop(
    stack: AsyncExitStack,
    out: Path,
    name: str,
    engine: RunningEngine,
    base: str,
    clock: Clock,
    seed: int,
) -> Shop:
    home = out / name
    (home / "service").mkdir(parents=True)
    site = home / "service" / "site.toml"
    site.write_text(SETTINGS.format(engine=engine.url))
    random = Random(seed_of(seed, "staff", name))
    logs = staff_logs(name, SHOPS[name], LOGS, random=random)
    (home / "logs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in logs))
    path = base_path(base)
    place = Place(
        home / "service",
        read_settings(site),
        path,
        RedactSection(secrets=True),
        StorageSection(),
        home,
        lambda: None,
    )
    service = Service(place, encoder=load_encoder(path), clock=clock, environ=engine.environ)
    url = await stack.enter_async_context(running(service, "127.0.0.1", 0))
    return Shop(name, service, url, [])
