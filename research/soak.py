"""Two hundred rounds of a real federation with kills at random: does anything grow?

python research/soak.py docs/results/soak.json --rounds 200 --kills 60

Three sites and a server on the loopback address, with TLS and node keys. Prints the medians of
memory, descriptors and threads of every part in each quarter of the rounds, and the files' sizes.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.system.soak import grown, soak, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--kills", type=int, default=60, help="rounds in which somebody dies")
    parser.add_argument("--seed", type=int, default=0, help="draws who dies, when and where")
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fedse-soak-") as folder:
        found = soak(Path(folder), rounds=given.rounds, kills=given.kills, seed=given.seed)
    table = told(found, given.rounds)
    table["grown by more than a tenth"] = grown(table["parts"], most=1.1)
    table["seconds"] = round(time.monotonic() - started)
    given.out.write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
