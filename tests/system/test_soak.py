"""What a soak draws, and how it tells growth: exact small cases; the soak itself is a script."""

import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("flwr", "torch", "psutil")

from tests.system import soak
from tests.system.field import Field
from tests.system.kills import POINTS, SITES
from tests.system.soak import Look, drawn, grown, looking, quarters


@given(st.integers(2, 300), st.integers(0), st.data())
def test_no_round_is_struck_twice_and_the_last_never(rounds: int, seed: int, data: st.DataObject):
    kills = data.draw(st.integers(0, rounds - 1))
    struck = list(drawn(rounds, kills, random.Random(seed)))
    assert len({round for _, _, round in struck}) == len(struck) == kills
    assert all(0 < round < rounds for _, _, round in struck)
    assert {who for who, _, _ in struck} <= {*SITES, "server"}
    assert {event for _, event, _ in struck} <= set(POINTS.values())


def test_what_holds_more_towards_the_end_is_named():
    looks = [Look(round, "site worker", 100 + round, 7, 3) for round in range(8)]
    table = quarters(looks, 8)
    assert table == {
        "site worker": {
            "memory": [100, 102, 104, 106],
            "descriptors": [7] * 4,
            "threads": [3] * 4,
        }
    }
    assert grown(table, most=1.1) == {}
    assert grown(table, most=1.02) == {"site worker, memory": 1.039}


def test_a_look_that_fails_is_no_sign_that_nothing_grows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(soak, "LOOK_SECONDS", 0.01)

    def broken() -> list[dict[str, Any]]:
        raise ValueError("half a line")

    here: Any = SimpleNamespace(events=broken)
    with pytest.raises(ValueError, match="half a line"), looking(here):
        time.sleep(0.2)


def test_a_record_that_goes_away_while_it_is_read_names_nothing(tmp_path: Path):
    """An owner removes its record when nothing of it runs any more."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "running-1.json").symlink_to(tmp_path / "gone")
    (tmp_path / "logs" / "running-2.json").write_text('{"running": [{"name": "node", "pid": 7}]}')
    here: Any = SimpleNamespace(federation=SimpleNamespace(path=tmp_path))
    assert Field.roll(here, "server") == [{"name": "node", "pid": 7}]
