"""Faults that machines really have, on a real federation, and what each costs.

python research/fault_table.py docs/results/faults.json

Three sites and a server on the loopback address, with TLS and node keys; server and one site have
small disks of their own, so only root can run it. One fault in each round. With --clocks also wrong
clocks, which need libfaketime.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.system.faults import ALL, FAULTS, Pace, run_faults, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", action="append", choices=ALL, help="may repeat")
    parser.add_argument("--clocks", action="store_true", help="wrong clocks as well")
    parser.add_argument("--full", type=float, default=Pace().full, help="seconds a disk stays full")
    given = parser.parse_args()
    names = given.only or list(ALL if given.clocks else FAULTS)
    with tempfile.TemporaryDirectory(prefix="fedse-faults-") as folder:
        # After each fault, so that a table that was cut short tells of those before.
        rows, matrix = run_faults(
            Path(folder),
            names,
            pace=Pace(full=given.full),
            record=lambda rows: given.out.write_text(told(rows)),
        )
    given.out.write_text(told(rows, matrix))
    print(told(rows, matrix), end="")


if __name__ == "__main__":
    main()
