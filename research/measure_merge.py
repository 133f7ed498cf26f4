"""What a server round needs at design size to validate, clip and average adapters from disk.

Memory is what comes on top of the global adapter, in adapters. Linux only.

OPENBLAS_THREAD_TIMEOUT=4 python research/measure_merge.py --megabytes 84 --clients 10
"""

import argparse
import re
import tempfile
import time
from functools import partial
from pathlib import Path

from fedse.config.schema import ClientSection, Config
from fedse.method.rounds import server_round
from fedse.method.site import Answer
from fedse.store.files import mapped
from fedse.testing import toy_adapter, toy_spec
from fedse.types import ClientStats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=84)
    parser.add_argument("--clients", type=int, default=10)
    args = parser.parse_args()
    width = int(args.megabytes * 1e6 / 4 / 8 / 2)
    spec = toy_spec(rank=8, inputs=width, outputs=width)
    config = Config(clients=(ClientSection(name="x", env="coin"),))
    current = toy_adapter(spec, 0, scale=0.01)
    with tempfile.TemporaryDirectory() as folder:
        answers = []
        for number in range(args.clients):
            path = Path(folder) / f"{number:04d}"
            path.write_bytes(toy_adapter(spec, number + 1, scale=0.01).to_bytes())
            answers.append(Answer(path.name, ClientStats(), partial(mapped, path)))
        forget_peak()
        before = peak_bytes()
        started = time.process_time()
        merged = server_round(current, answers, config)
        used = time.process_time() - started
    added = peak_bytes() - before
    print(
        f"{spec.nbytes / 1e6:.1f} MB x {args.clients} clients: {used:.1f} CPU-s, "
        f"{len(merged.voters)} voted, {before / 1e6:.0f} MB before the round, "
        f"{added / 1e6:.0f} MB more in it: {added / spec.nbytes:.2f} adapters"
    )


def forget_peak() -> None:
    """The peak of this process's memory is what it needs now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most resident memory since `forget_peak`."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return 1024 * int(found[1])


if __name__ == "__main__":
    main()
