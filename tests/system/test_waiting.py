"""A real site that nobody has asked yet holds no model, and little else."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from fedse.federation.keys import PRESENCE
from fedse.flower.ops.serve_federation import serving
from tests.system.field import SHORT_ROUND, Field, field, maze_clients

pytestmark = [pytest.mark.federated, pytest.mark.slow, pytest.mark.timeout(900)]

EXPERIMENT = f"""
[run]
name = "waiting"
rounds = 1
[model]
rank = 2
[eval]
episodes = 0
{SHORT_ROUND}
{maze_clients(["north"])}
"""
START_SECONDS = 600.0
MOST_BYTES = 300e6
"""Measured: 240 MB, with what is shared counted once."""
ABSENT = ("libtorch", "tokenizers", "sqlalchemy")
"""Libraries that no process of a waiting site has."""


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[psutil.Process]]:
    """The processes of a site whose node the server has let in, and that is asked nothing."""
    folder = tmp_path_factory.mktemp("waiting")
    with field(folder / "field", EXPERIMENT) as here, serving(here.federation, proxy=True):
        here.start_site("north")
        here.wait(START_SECONDS, until=partial(is_waiting, here))
        top = psutil.Process(here.running["north"].pid)
        yield [top, *top.children(recursive=True)]


def is_waiting(here: Field) -> bool:
    log = (here.path / "north.log").read_text()
    names = {process["name"] for process in here.roll("north")}
    in_it = (here.home("north") / PRESENCE).exists() and names == {"worker", "node"}
    return in_it and "worker ready" in log


def test_a_waiting_site_has_no_model_in_memory(waits: list[psutil.Process]):
    assert len(waits) == 4, "starter, worker, node, SuperExec"
    for process in waits:
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        assert not [name for name in ABSENT if name in maps], process.cmdline()


def test_a_waiting_site_needs_little_memory(waits: list[psutil.Process]):
    each = [process.memory_full_info().pss for process in waits]
    assert sum(each) < MOST_BYTES, dict(zip(map(str, waits), each, strict=True))
