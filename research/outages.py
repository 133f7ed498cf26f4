"""What a real federation outlives besides kills at chosen points, and what each costs.

python research/outages.py docs/results/outages.json

Three sites and a server on the loopback address, with TLS and node keys; one outage in each round.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.system.kills import kill_matrix
from tests.system.outages import OUTAGES, Outage, struck, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", action="append", choices=OUTAGES, help="may repeat")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedse-outages-") as folder:
        costs: list[Outage] = []
        happenings = [struck(name, costs) for name in given.only or OUTAGES]
        matrix = kill_matrix(Path(folder), times=0, then=happenings)
    given.out.write_text(told(costs, matrix))
    print(told(costs, matrix), end="")


if __name__ == "__main__":
    main()
