"""A federation without an end, with real processes: rounds by the clock and on news, and a stop."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from fedse.store.next_round import read_next
from tests.system.field import SHORT_ROUND, field, maze_clients, undisturbed

SITES = ("alpha", "beta")


def settings(rounds: str) -> str:
    return f"""[run]
name = "open"
rounds = {rounds}
[schedule]
every = 45.0
news = 2
[eval]
episodes = 0
{SHORT_ROUND}
{maze_clients(SITES)}"""


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_open_federation_stops_after_a_round_and_is_as_one_of_so_many_rounds(tmp_path: Path):
    with field(tmp_path / "open", settings('"open"'), light=True) as f:
        for site in SITES:
            f.start_site(site)
        f.start_server()
        f.wait(600, until=lambda: len(f.results()) >= 2)
        stop = ["federation", "stop", "--after-round", "--dir", str(f.federation.path)]
        subprocess.run([sys.executable, "-m", "fedse", *stop], check=True)
        assert f.wait_for_end(120) == 0
        results, told = f.results(), read_next(f.federation.run)
        events = [one["event"] for one in f.events()]
    assert events[-1] == "run.stopped"
    assert "round.waiting" in events
    assert told
    assert told.round >= len(results)
    local, _ = undisturbed(tmp_path, settings(str(len(results))), light=True)
    assert [one.after for one in results] == [one.after for one in local]
