"""kill -9 at six points of a real federation, many times, and what it cost.

python research/kill_matrix.py docs/results/kills.json --runs 5 --times 10

Three sites and a server on the loopback address, started by their own commands, with TLS and node
keys. Every kill is by the kernel, in the process itself, at the named event. The result is written
after each federation, so one that was cut short still tells of those before.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.system.kills import Matrix, added, kill_matrix, summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=5, help="federations, one after another")
    parser.add_argument("--times", type=int, default=10, help="kills at each point in each of them")
    given = parser.parse_args()
    started, all_of_them = time.monotonic(), list[Matrix]()
    for number in range(1, given.runs + 1):
        with tempfile.TemporaryDirectory(prefix="fedse-kills-") as folder:
            all_of_them.append(kill_matrix(Path(folder), times=given.times))
        spent = round(time.monotonic() - started)
        found = {"runs": number, "times": given.times, "seconds": spent}
        text = json.dumps(found | summary(added(all_of_them)), indent=1)
        given.out.write_text(text + "\n")
        print(text, flush=True)


if __name__ == "__main__":
    main()
