"""Regions over Flower: two federations below a third give the adapter of one coordinator.

Each of the three round loops is killed once. More of it, in namespaces: research/regions.py.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.drivers.stages import introduce
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.store.run_folder import run_config
from tests.system.field import SHORT_ROUND, maze_clients, undisturbed
from tests.system.region_field import RegionTree, region_tree

pytestmark = [pytest.mark.federated, pytest.mark.timeout(900)]

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
SECURE = f'{SETTINGS}secure = true\nclip = "none"\n'


def killed_and_compared(
    path: Path, settings: str, partition: Mapping[str, Sequence[str]]
) -> RegionTree:
    """All rounds are committed with the adapters of one coordinator, whatever was killed."""
    sites = [site for inside in partition.values() for site in inside]
    whole, _ = undisturbed(path / "flat", settings + maze_clients(sites), light=True)
    with region_tree(path, settings, partition) as tree:
        for region in tree.regions.values():
            homes = {site: region.home(site) for site in region.sites}
            introduce(run_config(region.federation.run), region.federation.run, homes)
        tree.regions["north"].order("server", "region.told", 1)
        tree.regions["south"].order("server", "region.summed", 2)
        tree.root.order("server", "regions.summed", 1)
        tree.start("--page", "none")  # three on one machine would want the same port
        assert tree.wait_for_end(600) == {"root": 0, "north": 0, "south": 0}
    assert [len(one.killed()) for one in tree.fields] == [1, 1, 1]
    for one in tree.fields:
        assert [result.after for result in one.results()] == [result.after for result in whole]
    return tree


def test_two_regions_give_the_adapter_of_one_coordinator(tmp_path: Path):
    partition = {"north": ("a", "b"), "south": ("c", "d")}
    tree = killed_and_compared(tmp_path, SETTINGS, partition)
    for region in tree.regions.values():
        for folder in (region.federation.run, region.federation.path / "above"):
            found = [verify_ledger(file) for file in ledgers_in(folder)]
            assert found
            assert [one.finding for one in found if one.finding] == []


@pytest.mark.long
def test_secure_sums_of_regions_give_the_adapter_of_one_secure_sum(tmp_path: Path):
    needs("Crypto")
    partition = {"north": ("a", "b", "c"), "south": ("d", "e", "f")}
    tree = killed_and_compared(tmp_path, SECURE, partition)
    assert all(len(one.sites) == 3 for r in tree.root.results() for one in r.regions)
