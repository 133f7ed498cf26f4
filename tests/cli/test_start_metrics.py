"""`fedse federation start --metrics`: what the run's log says is served while it goes."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import httpx
import pytest

from tests.needs import needs

needs("flwr", "prometheus_client")

from fedse.cli.app import start
from fedse.federation.folder import Federation
from fedse.federation.keys import valid_until
from fedse.flower.ops import serve_federation
from fedse.ports import free_ports
from tests.federation.rounds_without_sites import run_all_rounds
from tests.federation.scene import Scene


class Rounds(NamedTuple):
    """A server that has no sites and commits all rounds at once."""

    federation: Federation

    def run(self, *, wait: float) -> str:
        run_all_rounds(self.federation)
        return ""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which federations were served; nothing is started for them."""
    names: list[str] = []

    @contextmanager
    def serving(federation: Federation, *, proxy: bool, tell: object) -> Iterator[Rounds]:
        names.append(federation.card.name)
        yield Rounds(federation)

    monkeypatch.setattr(serve_federation, "serving", serving)
    monkeypatch.setattr("fedse.observers.follow.PERIOD", 0.02)
    return names


def asked_until(url: str, wanted: str) -> str:
    ends = time.monotonic() + 20
    while wanted not in (told := httpx.get(url, trust_env=False).text):
        assert time.monotonic() < ends, told
        time.sleep(0.02)
    return told


def test_metrics_and_health_follow_the_log_of_the_run(
    scene: Scene, served: list[str], monkeypatch: pytest.MonkeyPatch
):
    port, heard = free_ports(1)[0], []

    def run(server: Rounds, *, wait: float) -> str:
        run_all_rounds(server.federation)
        here = f"http://127.0.0.1:{port}"
        heard.append(asked_until(f"{here}/health", "run.finished"))
        heard.append(httpx.get(f"{here}/metrics", trust_env=False).text)
        return ""

    monkeypatch.setattr(Rounds, "run", run)
    where = ["--dir", str(scene.federation.path), "--metrics", f"127.0.0.1:{port}"]
    assert start(["federation", "start", *where, "--plain"]) == 0
    health, metrics = heard
    assert (json.loads(health)["well"], json.loads(health)["round"]) == (True, 3)
    assert "fedse_round 3.0" in metrics
    assert 'fedse_episodes_total{client="alpha"} 12.0' in metrics
    for name, file in (("server", "server.pem"), ("authority", "ca.crt")):
        ends = valid_until(scene.federation.path / "keys" / file).timestamp()
        told = re.search(rf'certificate_expires_seconds{{certificate="{name}"}} (\S+)', metrics)
        assert told
        assert float(told[1]) == ends
    assert served == ["clinics"]


def test_silence_is_ill_health_only_after_a_wait_and_a_round(
    scene: Scene, served: list[str], monkeypatch: pytest.MonkeyPatch
):
    asked = []

    @contextmanager
    def watched(
        address: str | None, patience: float, *, expiries: object, sites: object
    ) -> Iterator[list[object]]:
        asked.append((address, patience))
        yield []

    monkeypatch.setattr("fedse.cli.federation.watched", watched)
    assert start(["federation", "start", "--dir", str(scene.federation.path), "--wait", "7"]) == 0
    from tests.federation.scene import config

    assert asked == [(None, config().aggregate.deadline + 7)]


@pytest.mark.parametrize("address", ["9464", "127.0.0.1:", "127.0.0.1:http"])
def test_a_wrong_address_starts_nothing(scene: Scene, served: list[str], address: str):
    where = ["--dir", str(scene.federation.path), "--metrics", address]
    assert start(["federation", "start", *where]) == 2
    assert served == []
