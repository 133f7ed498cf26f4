"""What a real federation outlives besides kills at chosen points, and what each costs.

python scripts/outages.py docs/results/outages.json

Three sites and a server on the loopback address, with TLS and node keys; one outage in each round.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.federation.outages import OUTAGES, outlive, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", action="append", choices=OUTAGES, help="may repeat")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedse-outages-") as folder:
        outcome = outlive(Path(folder), given.only or list(OUTAGES))
    given.out.write_text(told(outcome))
    print(told(outcome), end="")


if __name__ == "__main__":
    main()
