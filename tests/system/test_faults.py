"""Full disks and hangs in a real federation: it goes on by itself, and nothing is lost.

The whole table is made by research/fault_table.py.
"""

from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "nginx", "tmpfs")

from tests.system.faults import Pace, run_faults

pytestmark = [pytest.mark.federated, pytest.mark.slow]
QUICK = Pace(full=5.0, stopped=3.0, progress=120.0)


def test_full_disks_and_a_stopped_worker_cost_time_and_nothing_else(tmp_path: Path):
    faults = ["server's disk full", "site's disk full", "worker stopped"]
    rows, matrix = run_faults(tmp_path, faults, pace=QUICK, light=True)
    assert [row.votes_lost for row in rows] == [0, 0, 0]
    assert matrix.digest_equal
    assert matrix.rounds_lost == matrix.counted_twice == matrix.trajectories_lost == 0
    assert any("is full" in line or "takes no more" in line for line in rows[0].told)
    assert any("has room again" in line for line in rows[1].told)
    assert any("is stopped for" in line for line in rows[2].told)
