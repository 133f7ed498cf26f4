"""A whole service on an instant engine: an adapter is offered, tried, and rolled back or kept."""

import asyncio
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

from fedse.adapters.base import adapter_spec, initial_adapter
from fedse.adapters.peft_folder import WEIGHTS, export_adapter
from fedse.results.outcome import committed_round
from fedse.store.run_folder import open_run
from fedse.types import Adapter
from fedse_serve.gateway import make_app
from fedse_serve.instant_engine import InstantEngine
from fedse_serve.page import service_page
from fedse_serve.place import open_place
from fedse_serve.service import Service
from fedse_serve.status import status_lines, status_of
from tests.exports.toy_run import make_run

PLANTED = "a very particular sentence about a violet umbrella"
SECRET = "AKIAIOSFODNN7EXAMPLE"
WANTED = f"Where is my order? {PLANTED}, my key is {SECRET}"
ASKED = {"model": "shop", "messages": [{"role": "user", "content": WANTED}]}
SETTINGS = """
[service]
engine = "{url}"
idle_minutes = 0.01
[service.metrics.solved]
type = "boolean"
wait_days = 0
[service.canary]
shares = [0.5, 1.0]
least = 20
"""


class Time:
    now = 1_000_000.0006

    def __call__(self) -> float:
        return self.now


def adapter_of(seed: int, *, scale: float = 1.0) -> Adapter:
    spec = adapter_spec("tiny", rank=2, alpha=4.0, targets=["q_proj", "v_proj"])
    noise = np.random.default_rng(seed).normal(0, 0.01 * scale, spec.size).astype(np.float32)
    return Adapter(spec, initial_adapter(spec, seed=0).vector + noise)


def trial(
    tmp_path: Path, solved: Callable[[str], bool], *, sessions: int, pause: float = 60.0
) -> tuple[Service, Any]:
    """A service of one adapter, and another that is tried in so many sessions."""
    first = export_adapter(adapter_of(1), tmp_path / "first")
    other = export_adapter(adapter_of(2), tmp_path / "other")
    time = Time()

    async def play() -> tuple[Service, Any]:
        engine = InstantEngine()
        async with engine.running() as url:
            (first / "service").mkdir()
            (first / "service" / "site.toml").write_text(SETTINGS.format(url=url))
            service = Service(open_place(first, {}), encoder=None, clock=time)
            async with service.engine.open():
                await service.begin()
                async with TestClient(TestServer(make_app(service.gateway()))) as client:
                    service.registry.offer_folder(other, reason="a test")
                    for _ in range(2):
                        await service.look_at_trial()
                    for number in range(sessions):
                        time.now += pause
                        await one_session(client, f"s{number}", solved)
                        if number % 10 == 9:
                            await service.look_at_trial()
            service.recorder.close()
            time.now += 60
            settings = service.place.settings
            return service, status_of(service.records, service.registry, settings, now=time.now)

    return asyncio.run(play())


async def one_session(client: Any, name: str, solved: Callable[[str], bool]) -> None:
    headers = {"x-fedse-session-id": name}
    answer = await client.post("/v1/chat/completions", json=ASKED, headers=headers)
    assert answer.status == 200
    body = {"metric_name": "solved", "episode_id": name}
    value = solved(answer.headers["x-fedse-arm"])
    told = await client.post("/v1/feedback", json={**body, "value": value})
    assert told.status == 200


def test_an_adapter_that_fails_its_sessions_is_rolled_back_and_the_ledger_says_why(
    tmp_path: Path,
) -> None:
    service, status = trial(tmp_path, lambda arm: arm == "stable", sessions=60)
    assert status.current == adapter_of(1).digest
    assert status.candidate is None
    kinds = [moved.move.kind for moved in status.moves]
    assert kinds == ["offered", "pinned", "unpinned", "offered", "passed", "share", "rolled back"]
    assert "success" in status.moves[-1].move.reason
    assert adapter_of(2).digest in service.registry.state.refused


def test_an_adapter_that_does_better_is_promoted(tmp_path: Path) -> None:
    _, status = trial(tmp_path, lambda arm: arm == "canary", sessions=120)
    assert status.current == adapter_of(2).digest
    assert status.moves[-1].move.kind == "promoted"


def test_a_session_of_the_moment_at_which_a_trial_begins_counts(tmp_path: Path) -> None:
    _, status = trial(tmp_path, lambda arm: True, sessions=8, pause=0.0)
    assert sum(status.decision.ended.values()) == 8


def test_status_counts_sessions_by_day_and_adapter(tmp_path: Path) -> None:
    _, status = trial(tmp_path, lambda arm: arm == "stable", sessions=40)
    assert sum(day.sessions for day in status.days) == 40
    first = adapter_of(1).digest
    assert all(day.successes == day.labelled for day in status.days if day.adapter == first)
    text = "\n".join(status_lines(status))
    assert f"serving    {first[:12]}" in text
    assert json.loads(status.model_dump_json())["current"] == first


def test_what_was_said_is_in_the_records_only_and_a_secret_is_nowhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    service, status = trial(tmp_path, lambda arm: arm == "stable", sessions=60)
    found = {
        word: {file.name for file in tmp_path.rglob("*") if file.is_file() and _has(file, word)}
        for word in (PLANTED, SECRET)
    }
    records = service.records.path.name
    assert {name.removesuffix("-wal") for name in found[PLANTED]} == {records}
    assert found[SECRET] == set()
    page = service_page(status, name="shop", now=0.0)
    for shown in (page, status.model_dump_json(), *capfd.readouterr()):
        assert PLANTED not in shown


def _has(file: Path, word: str) -> bool:
    return word.encode() in file.read_bytes()


def test_the_newest_adapter_of_a_run_is_served(tmp_path: Path) -> None:
    run = make_run(tmp_path).path
    place = open_place(run, {})
    newest = place.newest()
    assert newest is not None
    with closing(open_run(run)) as opened:
        last = opened.adapter(committed_round(opened, None))
    assert (newest / WEIGHTS).read_bytes() == last.to_bytes()
    assert place.newest() == newest
    assert place.template


@pytest.mark.parametrize("what", ["empty", "missing"])
def test_what_cannot_be_served_says_what_can(tmp_path: Path, what: str) -> None:
    with pytest.raises(Exception, match="nothing to serve") as refused:
        open_place(tmp_path / what, {})
    assert "fedse export adapter" in refused.value.hint  # type: ignore[attr-defined]
