"""Flower's SuperLink looks for expired tasks, but not with every request."""

from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("flwr")

from flwr.supercore.corestate.sql_corestate import SqlCoreState
from flwr.superlink import config_loader

from fedse.flower.patches import expired_claims
from fedse.flower.patches.expired_claims import look_once_a_second, seldom


def test_of_many_looks_in_one_second_one_is_done():
    now, done = 0.0, []
    look = seldom(done.append, 1.0, lambda: now)
    for tenth in range(31):
        now = tenth / 10
        look(tenth)
    assert done == [0, 10, 20, 30]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:alembic")
def test_flower_comes_past_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    plain: Any = SqlCoreState._cleanup_expired_task_tokens
    done: list[object] = []

    def noted(state: SqlCoreState) -> None:
        done.append(state)
        plain(state)

    monkeypatch.setattr(SqlCoreState, "_cleanup_expired_task_tokens", noted)
    monkeypatch.setattr(expired_claims, "EVERY_SECONDS", 3600.0)
    look_once_a_second()
    manager = config_loader.get_federation_manager(is_simulation=False)
    _, states = config_loader.get_objectstore_linkstate_factories(
        str(tmp_path / "link.db"), manager
    )
    for _ in range(5):
        states.state().get_run_status({1})
    assert len(done) == 1
