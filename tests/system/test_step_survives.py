"""A private step on a real federation, while its processes are killed."""

from collections import Counter
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "torch", "cryptography", "Crypto", "dp_accounting")

from tests.system.kills import SITES, costs
from tests.system.step_kills import POINTS, step_matrix

TIMES = 3


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_whatever_is_killed_a_round_is_one_step_of_one_vector_and_one_charge_a_site(
    tmp_path: Path,
):
    found = step_matrix(tmp_path, times=TIMES)
    print(costs(found.kills, POINTS), found._replace(kills=[]), sep="\n")
    assert Counter(kill.point for kill in found.kills) == dict.fromkeys(POINTS, TIMES)
    assert (found.rounds, found.answers) == (TIMES + 1, len(SITES) * (TIMES + 1))
    assert found.amiss == {}
