"""How well does each client's own adapter do in the other clients' worlds?

`python research/measure_transfer.py ROOT docs/results/transfer.json --seeds 5`, where ROOT is the
--out folder of a finished `fedse reproduce main`. Plays every client's held-out games, the same
ones as in the table, with every lone client's final adapter and with the federated one.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import fedse
from fedse.config.schema import Config
from fedse.events import silent
from fedse.method.evaluate import client_eval
from fedse.site.open import open_site
from fedse.stats.rates import Rate
from fedse.types import Adapter
from fedse_reproduce.jobs import key_of
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.tables import Job, jobs_of

Matrix = dict[str, dict[str, list[int]]]
"""Owner of an adapter -> client -> held-out games won and played there."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    found: Matrix = {}
    for seed in range(options.seeds):
        add(found, played(options.root, seed))
        options.out.write_text(json.dumps({"seeds": seed + 1, "won_played": found}) + "\n")
    print(markdown(found))


def played(root: Path, seed: int) -> Matrix:
    """Adapter's owner -> world -> [won, played]."""
    together, *_ = _jobs("fed-se", seed)
    owners = {job.config.clients[0].name: job for job in _jobs("local-evolve", seed)}
    adapters = {"everybody (fed-se)": _adapter(root, together)}
    adapters |= {name: _adapter(root, job) for name, job in owners.items()}
    federated = together.config
    matrix: Matrix = {}
    for client in federated.clients:
        add(matrix, play_at(client.name, adapters, federated))
    return matrix


def play_at(client: str, adapters: Mapping[str, Adapter], config: Config) -> Matrix:
    """What each owner's adapter wins of this client's held-out games."""
    with tempfile.TemporaryDirectory() as home:
        site = open_site(config, client, Path(home), clock=time.time)
        with closing(site.buffer):
            found = {
                owner: client_eval(adapter, site, config, round=1, emit=silent)
                for owner, adapter in adapters.items()
            }
    return {
        owner: {client: [stats.eval_succeeded, stats.eval_played]} for owner, stats in found.items()
    }


def _jobs(label: str, seed: int) -> list[Job]:
    arm = next(arm for arm in TABLES["main"].arms if arm.label == label)
    return jobs_of([arm], range(seed, seed + 1))


def _adapter(root: Path, job: Job) -> Adapter:
    return fedse.load_adapter(root / "runs" / key_of(job), round=job.config.run.rounds)


def add(total: Matrix, more: Matrix) -> None:
    for owner, worlds in more.items():
        for world, counts in worlds.items():
            old = total.setdefault(owner, {}).get(world, [0, 0])
            total[owner][world] = [a + b for a, b in zip(old, counts, strict=True)]


def markdown(found: Matrix) -> str:
    worlds = list(next(iter(found.values())))
    rows = [["adapter of", *worlds, "all worlds"], ["---"] * (len(worlds) + 2)]
    for owner, counts in found.items():
        rates = [Rate(*counts[world]) for world in worlds]
        whole = Rate(sum(rate.successes for rate in rates), sum(rate.n for rate in rates))
        low, high = whole.interval
        told = f"{whole.value:.3f} ({low:.3f}-{high:.3f})"
        rows.append([owner, *(f"{rate.value:.2f}" for rate in rates), told])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    main()
