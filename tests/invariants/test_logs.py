"""No log has a word of what an agent saw: a world says a canary everywhere, and it is searched for.

Where an environment itself raises, its own words are quoted, at home and nowhere else.
"""

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.protocol import Question
from fedse.site import worker
from fedse.site.log import log_to
from fedse.site.served import ServedSites
from fedse.site.worker import exchange
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from tests.toys.canary_world import CANARY

SPEC = toy_spec()


def toy(**options: object) -> Config:
    world = "tests.toys.canary_world:CanaryWorld"
    clients = [{"name": name, "env": world, "options": options} for name in ("alpha", "beta")]
    return Config.model_validate(
        {
            "run": {"name": "toy", "rounds": 2},
            "rollout": {"episodes": 6},
            "eval": {"episodes": 4},
            "aggregate": {"min_clients": 1},
            "clients": clients,
        }
    )


class Frames:
    """One request comes in, what goes out is kept."""

    def __init__(self, *frames: bytes) -> None:
        self._frames, self.sent = list(frames), []

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        return self._frames.pop(0)

    def send_bytes(self, buf: bytes) -> None:
        self.sent.append(buf)


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Path]:
    """A site's home whose worker.log takes what the worker says."""
    before, home = (worker.log.level, worker.log.propagate), tmp_path / "alpha"
    log_to(home, worker.log)
    yield home
    for handler in list(worker.log.handlers):
        if isinstance(handler, logging.FileHandler):
            worker.log.removeHandler(handler)
            handler.close()
    worker.log.setLevel(before[0])
    worker.log.propagate = before[1]


def asked(config: Config, home: Path) -> dict[str, object]:
    """What a worker answers to the first request of a run."""
    adapter = toy_adapter(SPEC, 1)
    request = Question(
        experiment="toy", round=1, agreed=config.agreed_digest(), spec=SPEC.identity,
        adapter=adapter.digest, kind="train", evaluate=True,
    )  # fmt: skip
    said = json.dumps({"client": None, "request": request.model_dump(mode="json")}).encode()
    frames = Frames(said, adapter.to_bytes())
    sites = ServedSites(
        config, ["alpha"], lambda n: open_toy_site(config, n, home, clock=time.time)
    )
    exchange(frames, sites)
    sites.close()
    answer: dict[str, object] = json.loads(frames.sent[0])
    return answer


def with_canary(folder: Path) -> set[str]:
    """Names of the files that hold it, at any depth."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.name for path in files if CANARY.encode() in path.read_bytes()}


def test_a_site_logs_facts_and_no_word_of_a_game(logged: Path):
    assert asked(toy(), logged)["fault"] == 0
    assert with_canary(logged) <= {"buffer.db", "buffer.db-wal"}
    assert with_canary(logged), "the site itself has seen it"
    lines = (logged / "worker.log").read_text().splitlines()
    events = [json.loads(line.split(" ", 3)[3]) for line in lines]
    assert {"eval.started", "rollout.started", "train.started", "upload.started"} <= {
        event["event"] for event in events
    }


def test_a_run_logs_facts_and_no_word_of_a_game(tmp_path: Path):
    run = Run(tmp_path, toy(), SPEC, clock=time.time)
    run_local(run, open_site=open_toy_site)
    assert "run.finished" in (tmp_path / "events.jsonl").read_text()
    assert with_canary(tmp_path) <= {"buffer.db", "buffer.db-wal"}
    assert with_canary(tmp_path), "the clients have seen it"


def test_a_world_that_raises_is_quoted_at_home_and_answered_with_a_number(logged: Path):
    answer = asked(toy(breaks=True), logged)
    assert answer["fault"] == 4
    assert CANARY not in json.dumps(answer)
    assert "worker.log" in with_canary(logged)
    assert (logged / "worker.log").stat().st_mode & 0o777 == 0o600
