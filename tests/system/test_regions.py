"""Regions over Flower: two federations below a third give the adapter of one coordinator.

Each of the three round loops is killed once. More of it, in namespaces: research/regions.py.
"""

from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from tests.system.field import SHORT_ROUND, maze_clients, undisturbed
from tests.system.region_field import region_tree

pytestmark = [pytest.mark.federated, pytest.mark.timeout(900)]

PARTITION = {"north": ("a", "b"), "south": ("c", "d")}
SETTINGS = f"""[run]
name = "regions"
rounds = 2
{SHORT_ROUND}
[eval]
episodes = 2
[aggregate]
deadline = 240.0
rejoin = 60.0
"""


def test_two_regions_give_the_adapter_of_one_coordinator(tmp_path: Path):
    sites = [site for sites in PARTITION.values() for site in sites]
    whole, _ = undisturbed(tmp_path / "flat", SETTINGS + maze_clients(sites), light=True)
    with region_tree(tmp_path, SETTINGS, PARTITION) as tree:
        tree.regions["north"].order("server", "region.told", 1)
        tree.regions["south"].order("server", "region.summed", 2)
        tree.root.order("server", "regions.summed", 1)
        tree.start()
        assert tree.wait_for_end(600) == {"root": 0, "north": 0, "south": 0}
        results = tree.root.results()
        assert [one.after for one in results] == [one.after for one in whole]
        assert [len(one.killed()) for one in tree.fields] == [1, 1, 1]
        for region in tree.regions.values():
            assert [one.after for one in region.results()] == [one.after for one in whole]
