"""The worker's log: readable by its owner alone, also the parts before, and of bounded length."""

import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedse.site import log as log_module
from fedse.site.log import BEFORE, log_to


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("fedse.test-log")
    yield made
    for handler in list(made.handlers):
        made.removeHandler(handler)
        handler.close()


def test_all_parts_are_private_and_there_are_no_more_than_so_many(
    tmp_path: Path, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_module, "MOST_BYTES", 200)
    log_to(tmp_path / "home", logger)
    for number in range(100):
        logger.info("line %d", number)
    parts = sorted((tmp_path / "home").iterdir())
    assert [p.name for p in parts] == ["worker.log"] + [
        f"worker.log.{i + 1}" for i in range(BEFORE)
    ]
    assert {stat.S_IMODE(p.stat().st_mode) for p in parts} == {0o600}
    assert all(p.stat().st_size <= 200 for p in parts)
    assert "line 99" in parts[0].read_text()


def test_a_worker_that_is_started_again_appends(tmp_path: Path, logger: logging.Logger):
    (tmp_path / "worker.log").write_text("before\n")
    log_to(tmp_path, logger)
    logger.info("after")
    assert (tmp_path / "worker.log").read_text().startswith("before\n")
    assert (tmp_path / "worker.log").read_text().endswith("after\n")
