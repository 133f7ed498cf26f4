"""What a server round costs at design size: validate, clip and average adapters read from disk.

python scripts/measure_merge.py --megabytes 84 --clients 10
"""

import argparse
import resource
import tempfile
import time
from functools import partial
from pathlib import Path

from fedse.config.schema import ClientSection, Config
from fedse.method.rounds import server_round
from fedse.method.site import Answer
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
            answers.append(Answer(path.name, ClientStats(), partial(Path.read_bytes, path)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.process_time()
        merged = server_round(current, answers, config)
        used = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{spec.nbytes / 1e6:.1f} MB x {args.clients} clients: {used:.1f} CPU-s, "
        f"{len(merged.voters)} voted, peak {peak / 1e3:.0f} MB, before the round {before / 1e3:.0f}"
    )


if __name__ == "__main__":
    main()
