"""The coordinator's page shows what `status` prints, to this machine, and changes nothing."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli import coordinator_page
from fedse.cli.coordinator_page import names_this_machine, page_served
from fedse.cli.federation_view import FederationView, View, fresh_view, view_of
from fedse.errors import ConfigError, MachineError, StoreError
from fedse.store.lock import locked
from tests.federation.rounds_without_sites import run_all_rounds
from tests.federation.scene import Scene

ANY = "127.0.0.1:0"


@contextmanager
def served(
    scene: Scene, address: str | None = ANY, view: View | None = None
) -> Iterator[tuple[httpx.Client, str]]:
    """A client of the page, and its address as it is told."""
    told: list[str] = []
    view = view or fresh_view(scene.federation)
    with page_served(address, scene.federation, view, patience=60, tell=told.append) as (watch,):
        watch("round.started", {"round": 2})
        (line,) = told
        url = re.search(r"http://127\.0\.0\.1:\d+/", line)[0]
        with httpx.Client(base_url=url, trust_env=False) as client:
            yield client, url


def test_the_status_is_that_of_the_command(scene: Scene):
    run_all_rounds(scene.federation)
    with served(scene) as (client, _):
        told = client.get("/status").json()
    known = view_of(scene.federation, now=told["time"]).facts()
    assert told == json.loads(json.dumps(known))


def test_health_says_who_is_connected(scene: Scene):
    scene.enrol(scene.request(scene.join()))
    with served(scene) as (client, _), locked(scene.federation.path, busy="", hint=""):
        told = client.get("/health").json()
        (scene.federation.path / "enrolment.json").write_text("damaged")
        damaged = client.get("/health").json()
    assert (told["well"], told["state"], told["round"]) == (True, "round.started", 2)
    away = {"doing": "away", "since": None, "round": None, "connected": None}
    assert told["sites"] == {"alpha": away}
    assert (damaged["well"], damaged["sites"]) == (True, None)


def test_the_page_may_ask_its_own_server_only_and_holds_nothing_of_the_federation(scene: Scene):
    with served(scene) as (client, _):
        page = client.get("/")
    rules = page.headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in rules
    assert "connect-src 'self'" in rules
    assert not any("unsafe" in rule or "*" in rule for rule in rules)
    for secret in ("clinics", "alpha", scene.federation.card.fingerprint):
        assert secret not in page.text
    assert not re.search(r"(?:https?:)?//[a-z]", page.text.replace("http-equiv", ""))
    assert "access-control-allow-origin" not in page.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(scene: Scene, method: str):
    with served(scene) as (client, _):
        assert client.request(method, "/status").status_code == 405
        assert client.get("/other").status_code == 404


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:9465", True),
        ("localhost:9465", True),
        ("localhost", True),
        ("[::1]:9465", True),
        ("[::1]", True),
        ("evil.example:9465", False),
        ("127.0.0.1.evil.example", False),
        ("192.0.2.7:9465", False),
        ("", False),
    ],
)
def test_only_requests_that_name_this_machine_are_answered(scene: Scene, host: str, known: bool):
    assert names_this_machine(host) == known
    if host in ("evil.example:9465", "localhost:9465"):
        with served(scene) as (client, _):
            code = client.get("/status", headers={"host": host}).status_code
        assert code == (200 if known else 421)


def test_what_cannot_be_read_is_told_without_a_path(scene: Scene):
    def broken() -> FederationView:
        raise StoreError(f"{scene.federation.path} is damaged")

    with served(scene, view=broken) as (client, _):
        answer = client.get("/status")
    assert (answer.status_code, answer.json()) == (503, {"error": "StoreError"})


def test_a_port_that_was_asked_for_is_needed_and_one_that_was_not_is_replaced(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        monkeypatch.setattr(coordinator_page, "PORT", taken)
        with served(scene, None) as (client, url):
            assert not url.endswith(f":{taken}/")
            assert client.get("/").status_code == 200
        with (
            pytest.raises(MachineError, match=f":{taken}") as e,
            served(scene, f"127.0.0.1:{taken}"),
        ):
            pass
    assert "--page 127.0.0.1:PORT" in e.value.hint


def test_without_a_page_nothing_listens(scene: Scene):
    told: list[str] = []
    with page_served(
        "none", scene.federation, fresh_view(scene.federation), patience=60, tell=told.append
    ) as watchers:
        assert (watchers, told) == ([], [])
    with pytest.raises(ConfigError, match="--page must look like"), served(scene, "9465"):
        pass
