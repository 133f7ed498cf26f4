"""Shorter forms of research/kill_matrix.py and research/outages.py, on one real federation."""

from collections import Counter
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from tests.system.kills import POINTS, kill_matrix, summary
from tests.system.outages import Outage, struck

# research/outages.py has the others.
THEN = ("SuperLink killed", "database locked for 9 s")
# The aim of every kill on free cores. Where others share them, to be back must not take longer than
# it took to begin from nothing: half of the kills at each point in that time, all in twice that.
# The script tells the worst.
BACK_SECONDS = 30.0


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("times", "light"),
    [(1, True), pytest.param(5, False, marks=pytest.mark.long)],
    ids=["once without a model", "five times with the tiny model"],
)
def test_whatever_is_killed_the_adapter_is_that_of_the_undisturbed_run(
    tmp_path: Path, times: int, light: bool
):
    costs: list[Outage] = []
    then = [struck(name, costs) for name in THEN]
    matrix = kill_matrix(tmp_path, times=times, then=then, light=light)
    print(summary(matrix), costs)
    assert Counter(kill.point for kill in matrix.kills) == dict.fromkeys(POINTS, times)
    assert [cost.name for cost in costs] == list(THEN)
    assert matrix.digest_equal
    counts = ("rounds_lost", "counted_twice", "trajectories_lost", "uncommitted", "excluded")
    assert {name: getattr(matrix, name) for name in counts} == dict.fromkeys(counts, 0)
    table = summary(matrix)["points"]
    allowed = max(BACK_SECONDS, matrix.start)
    assert max(point["back_median"] for point in table.values()) <= allowed
    assert max(point["back_worst"] for point in table.values()) <= 2 * allowed
