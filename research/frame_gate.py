"""Can one liar make the gate accuse an honest member? Measured on real validation games.

    python -m research.frame_gate docs/results/frame-gate.json --rounds 6 --seeds 0 1

Five honest maze sites with the tiny model play a federation whose gate expects one liar. Each time
the gate asks what a member does to the others, the counts of all sites are noted, and then judged
again: as they were, and with each of the other sites in turn as a liar that claims to have won all
games without the member and none with it. Two rules are compared: those who judge are trimmed by
the liars beside the accused, and by as many as the gate expects in all.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fedse.aggregate.gate import Won, judge, trimmed_mean
from fedse.config.schema import Config
from fedse.drivers import gating
from fedse.drivers.run import run_local
from fedse.store.run_folder import create_run
from fedse.types import Adapter

SITES, LIARS, GAMES = 5, 1, 20
Counts = Mapping[str, Won]


def settings(rounds: int, seed: int) -> Config:
    clients = [
        {
            "name": f"site-{i}",
            "env": "maze",
            "part": [i + 1, SITES],
            "options": {"prompt": "short"},
        }
        for i in range(SITES)
    ]
    return Config.model_validate(
        {
            "run": {"name": "frame", "rounds": rounds, "seed": seed},
            "rollout": {"episodes": 16, "context": 1024, "new_tokens": 32},
            "buffer": {"demonstrations": 4},
            "train": {"steps": 40, "lr": 0.002, "batch": 1},
            "warmstart": {"rounds": 1},
            "eval": {"episodes": 0},
            "splits": {"validation": 0.2},
            "gate": {"episodes": GAMES, "liars": LIARS},
            "clients": clients,
        }
    )


def noted(rounds: int, seed: int) -> list[tuple[frozenset[str], Counts, Counts]]:
    """Who was accused, and what all sites won without and with the accused."""
    found = []
    harm = gating.PlayingSites.harm

    def note(self: Any, accused: Collection[str], idle: Adapter, whole: Adapter) -> Any:
        found.append((frozenset(accused), dict(self.play(idle)), dict(self.play(whole))))
        print(json.dumps([sorted(accused), *found[-1][1:]]), flush=True)
        return harm(self, accused, idle, whole)

    gating.PlayingSites.harm = note  # type: ignore[method-assign]
    try:
        with (
            tempfile.TemporaryDirectory(prefix="frame-") as name,
            closing(create_run(Path(name), settings(rounds, seed), clock=time.time)) as run,
        ):
            run_local(run)
    finally:
        gating.PlayingSites.harm = harm  # type: ignore[method-assign]
    return found


def proven(
    accused: Collection[str],
    without: Counts,
    whole: Counts,
    *,
    trimmed: int,
    seed: int,
    liars: int = LIARS,
) -> bool:
    """As `harm_of` decides, if the judges are trimmed by so many."""
    judges = {site: won for site, won in without.items() if site not in accused}
    verdict = judge(judges, whole, liars=trimmed, level=gating.LEVEL / liars, seed=seed)
    changes = [whole[s].won / whole[s].played - without[s].won / without[s].played for s in whole]
    seen = trimmed_mean(changes, liars) < 0
    return verdict.sites > 0 and verdict.change < verdict.bound and seen


def lied(counts: Counts, liar: str, won: int) -> Counts:
    return {**counts, liar: Won(won, counts[liar].played)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    given = parser.parse_args()
    rounds = [given.rounds] * len(given.seeds)
    with ProcessPoolExecutor(len(given.seeds), get_context("spawn")) as pool:
        cases = [case for found in pool.map(noted, rounds, given.seeds) for case in found]
    moved = [abs(w[s].won - b[s].won) / w[s].played for _, b, w in cases for s in w]
    rules = {"beside the accused": 0, "as many as the gate expects": LIARS}
    rows = []
    for (rule, trimmed), liars in product(rules.items(), (0, 1)):
        framed = tried = 0
        for seed, (accused, without, whole) in enumerate(cases):
            judges = sorted(set(whole) - accused) if liars else [""]
            for liar in judges:
                told = (without, whole)
                if liar:
                    told = lied(without, liar, without[liar].played), lied(whole, liar, 0)
                framed += proven(accused, *told, trimmed=trimmed, seed=seed)
                tried += 1
        rows.append({"trimmed": rule, "liars": liars, "accused": framed, "of": tried})
    result = {
        "questions": len(cases),
        "games": GAMES,
        "mean_change_of_a_site": round(sum(moved) / max(1, len(moved)), 4),
        "rows": rows,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
