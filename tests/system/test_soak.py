"""What a soak draws, and how it tells growth: exact small cases; the soak itself is a script."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("flwr", "torch", "psutil")

from tests.system.kills import POINTS, SITES
from tests.system.soak import Look, drawn, grown, quarters


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
