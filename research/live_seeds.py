"""Does an agent in service learn from late, sparse and partly wrong thumbs?

    FEDSE_MODELS=FOLDER python -m research.live_seeds docs/results/live.json --out RUNS

`fedse demo live` for several seeds, each once as it is and once with a right thumb for every
session. The result has every customer of every day; a day's success is compared with the first
day's. What is done is not done again.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from fedse.stats.paired import paired_difference
from fedse_serve.live.customers import Thumbs
from fedse_serve.live.demo import NIGHTS, LiveDemo, live_demo
from fedse_serve.live.show import BASE

ARMS = {"thumbs": Thumbs(), "right thumbs for all": Thumbs(share=1.0, wrong=0.0)}


def days_of(found: LiveDemo) -> dict[str, str]:
    """Day -> every customer of all shops: 1 = served as the rule asks."""
    days: dict[str, str] = {}
    for done in found.days:
        served = "".join("01"[visit.solved] for visit in done.visits)
        days[str(done.day)] = days.get(str(done.day), "") + served
    return days


def adapters_of(found: LiveDemo) -> dict[str, dict[str, str]]:
    """Day -> adapter -> the customers it served, as in `days_of`."""
    days: dict[str, dict[str, str]] = {}
    for done in found.days:
        by_adapter = days.setdefault(str(done.day), {})
        for visit in done.visits:
            name = visit.adapter[:12]
            by_adapter[name] = by_adapter.get(name, "") + "01"[visit.solved]
    return days


def moves_of(found: LiveDemo) -> dict[str, list[str]]:
    """Shop -> what happened to adapters there."""
    return {
        shop: [f"{moved.move.kind} {(moved.move.adapter or 'base')[:12]}" for moved in status.moves]
        for shop, status in found.statuses.items()
    }


def last_against_first(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Success on the day after the last night minus that on the first day, over all seeds."""
    last, first = (
        [[bit == "1" for bit in run["days"][str(day)]] for run in runs] for day in (NIGHTS + 1, 1)
    )
    return paired_difference(last, first, seed=0)._asdict()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--base", default=BASE)
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    args = parser.parse_args()
    kept = json.loads(args.result.read_text())["runs"] if args.result.is_file() else {}
    for arm, how in ((arm, ARMS[arm]) for arm in args.arms):
        for seed in args.seeds:
            runs = kept.setdefault(arm, [])
            if any(run["seed"] == seed for run in runs):
                continue
            folder = args.out / f"{arm.split()[0]}-{seed}-{int(time.time())}"
            folder.mkdir(parents=True)
            found = asyncio.run(live_demo(folder, base=args.base, seed=seed, tell=_tell, how=how))
            told = {"days": days_of(found), "adapters": adapters_of(found)}
            runs.append({"seed": seed, **told, "moves": moves_of(found)})
            differences = {name: last_against_first(done) for name, done in kept.items() if done}
            whole = {"base": args.base, "last_minus_first_day": differences, "runs": kept}
            args.result.write_text(json.dumps(whole, indent=1) + "\n")
            print(arm, seed, differences[arm], flush=True)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
