"""How many steps, and how large, should a personal adapter take?

    fedse reproduce related --first-seed 100 --seeds 1 --out ROOT
    python -m research.measure_personal_steps ROOT docs/results/personal-steps.json \
        --seed 100 --steps 240 480 960 --rates 2e-3 5e-4

Each client of the finished runs of `ROOT` goes on from its last adapter: the common one, and the
one it made alone. What it then wins is written down: in mazes that nobody has, and at home. What
the result has already is not measured again.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import fedse
from fedse.config.methods import with_settings
from fedse.events import silent
from fedse.method.evaluate import measure
from fedse.method.personal import personal_adapter
from fedse.site.open import open_site
from fedse_reproduce.jobs import key_of
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.tables import Job, jobs_of

ARMS = ("together", "alone")
Won = dict[str, list[int]]
"""Purpose -> games won and played."""


def go_on(run: Path, job: Job, steps: int, rate: float) -> Iterator[Won]:
    """What each client wins after so many steps from the last adapter of the run."""
    rounds = job.config.run.rounds
    start = fedse.load_adapter(run, round=rounds)
    config = with_settings(job.config, {"personal.steps": steps, "personal.lr": rate})
    for client in config.clients:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(shutil.copytree(run / "clients" / client.name, Path(folder) / "home"))
            site = open_site(config, client.name, home, clock=time.time)
            with closing(site.buffer):
                own = personal_adapter(start, site, config, round=rounds + 1, emit=silent)
                if own is None:
                    raise SystemExit(f"{run}: {client.name} has nothing to learn from")
                counted = {
                    purpose: measure(own, site, config, purpose, round=rounds + 1)
                    for purpose in ("test", "home")
                }
        yield {purpose: [one.won, one.played] for purpose, one in counted.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--steps", type=int, nargs="+", default=[240, 480, 960])
    parser.add_argument("--rates", type=float, nargs="+", default=[2e-3, 5e-4])
    args = parser.parse_args()
    found = json.loads(args.result.read_text()) if args.result.is_file() else {}
    arms = {arm.label: arm for arm in TABLES["related"].arms}
    for label, steps, rate in product(ARMS, args.steps, args.rates):
        name = f"{label}, seed {args.seed}, {steps} steps, rate {rate:g}"
        if name in found:
            continue
        total: Won = {"test": [0, 0], "home": [0, 0]}
        for job in jobs_of([arms[label]], range(args.seed, args.seed + 1)):
            for won in go_on(args.root / "runs" / key_of(job), job, steps, rate):
                for purpose, counts in won.items():
                    total[purpose] = [a + b for a, b in zip(total[purpose], counts, strict=True)]
        found[name] = total
        print(name, total, flush=True)
        args.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
