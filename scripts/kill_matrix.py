"""kill -9 at six points of a real federation, many times, and what it cost.

python scripts/kill_matrix.py docs/results/kills.json --times 50

Three sites and a server on the loopback address, started by their own commands, with TLS and node
keys. Every kill is by the kernel, in the process itself, at the named event.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.federation.kills import kill_matrix, summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--times", type=int, default=50, help="kills at each of the six points")
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fedse-kills-") as folder:
        matrix = kill_matrix(Path(folder), times=given.times)
    result = {"times": given.times, "seconds": round(time.monotonic() - started)} | summary(matrix)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
