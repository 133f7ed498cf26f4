"""Does an agent learn as well when names and order numbers are stand-ins? A desk, a real model.

    FEDSE_MODELS=FOLDER python -m research.desk_standins docs/results/desk-standins.json --out RUNS

The experiment `desk`, in which every shop redacts the first names of customers and their order
numbers, which the agent has to repeat in its calls. The same customers with the true names and
numbers are in docs/results/desk-cases.json. What is done is not done again.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedse.api.running import run
from fedse.config.methods import newcomers
from fedse.envs.desk.shops import SHOPS
from fedse.stats.paired import paired_difference
from research.desk_seeds import HERE, NEW
from research.verdicts import ALONE, RESULTS, Cases, games_of

ORDER = r'(?:[Oo]rder |"id": ")(\d{3})\b'
"""As a customer says it, as the desk shows it and as the agent writes it."""


def rules(folder: Path) -> dict[str, list[str]]:
    """Settings with what a shop would list: the names of its customers, and its order numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    names, orders = folder / "customer.txt", folder / "orders.toml"
    folds = [fold for shop in SHOPS.values() for fold in shop.customers.values()]
    names.write_text("".join(f"{name}\n" for fold in folds for name in fold))
    orders.write_text(f"ORDER = {json.dumps(ORDER)}\n")
    return {"redact.words": [str(names)], "redact.patterns": [str(orders)]}


def played(seed: int, out: Path) -> dict[str, Any]:
    """The games of one seed after the last round, with stand-ins in all that was learned from."""
    began = time.process_time()
    settings = {**rules(out / "rules"), "run.seed": seed}
    result = run("desk", settings=settings, out=out)
    games, new = games_of(result.path), {one.name for one in newcomers(result.config)}
    return {
        "seed": seed,
        HERE: {shop: won for shop, won in games.items() if shop not in new},
        NEW: {shop: won for shop, won in games.items() if shop in new},
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def true_games(where: str) -> dict[int, str]:
    """Seed -> the same games, learned with the true names and numbers."""
    every = Cases.model_validate_json((RESULTS / "desk-cases.json").read_text()).cases
    (case,) = [one for one in every if one.where == where and one.against == ALONE]
    # A newcomer's games are there once for each shop that it is compared with.
    return {
        seed: "".join(games[shop] for shop in sorted(games)[: 1 if where == NEW else None])
        for seed, games in case.together.items()
    }


def compared(where: str, seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Success with stand-ins, with the true values, and the difference."""
    here = ["".join(one[where][shop] for shop in sorted(one[where])) for one in seeds]
    true = [true_games(where)[one["seed"]] for one in seeds]
    blocks = [[[bit == "1" for bit in games] for games in arm] for arm in (here, true)]
    rates = [[arm.count("1"), len(arm)] for arm in map("".join, (here, true))]
    difference = paired_difference(*blocks, seed=0)._asdict()
    return {"stand-ins": rates[0], "true values": rates[1], "difference": difference}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    seeds = json.loads(args.result.read_text())["seeds"] if args.result.is_file() else []
    done = {one["seed"] for one in seeds}
    for seed in [seed for seed in args.seeds if seed not in done]:
        seeds.append(played(seed, args.out))
        found = {where: compared(where, seeds) for where in (HERE, NEW)}
        args.result.write_text(json.dumps({**found, "seeds": seeds}, indent=1) + "\n")
        print(seed, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
