"""Run `fedse demo desk` for several seeds, as a user would, and keep what came of it.

    FEDSE_MODELS=FOLDER python -m research.desk_seeds docs/results/desk-seeds.json --out RUNS

Each seed is a fresh process; a seed that is in the result is not run again. The result holds each
seed's gain and its difference from working alone, both over all seeds with an interval that counts
how much seeds differ, and one customer before and after. Beside it, desk-cases.json has every game,
for the table of verdicts (research/verdicts.py). Sites that learn from their demonstrations alone,
with as many steps and the same customers, are beside them after

    fedse sweep desk --method fedit --seeds 0-4 --set trainer.threads=1 --jobs 1 --out SWEEP
    python -m research.desk_seeds docs/results/desk-seeds.json --out RUNS --sweep SWEEP/sweep.json
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fedse.exports.before_after import before_and_after
from fedse.exports.episodes import find_place, list_episodes, load_texts
from fedse.results.alone import SeedRuns, TogetherOrAlone, together_or_alone
from fedse.results.held_out import outcomes
from fedse.stats.paired import paired_differences
from research.verdicts import (
    ALONE,
    DEMONSTRATIONS,
    HALF_A_BILLION,
    Case,
    Cases,
    Games,
    games_of,
)
from scripts.cpu_time import children_cpu_seconds

HERE = "a shop, two kinds of cases; customers with all four kinds"
NEW = "nothing, it has just joined; customers of that shop"


def run_seed(seed: int, out: Path) -> dict[str, Any]:
    """What the demo told, and what it cost."""
    command = [sys.executable, "-m", "fedse", "demo", "desk", "--json", "--seed", str(seed)]
    before, started = children_cpu_seconds(), time.monotonic()
    told = subprocess.run([*command, "--out", str(out)], stdout=subprocess.PIPE, check=True)
    cpu, wall = children_cpu_seconds() - before, time.monotonic() - started
    events = [json.loads(line) for line in told.stdout.decode().splitlines()]
    result = next(event for event in events if event["event"] == "result")
    compared = events[-1]
    return {
        "seed": seed,
        "together_minus_alone": compared["all"],
        "alarms": result["alarms"],
        "wall_seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "clients": compared["clients"],
        "newcomers": compared["newcomers"],
        "together": Path(compared["together"]).name,
        "alone": {client: Path(path).name for client, path in compared["alone"].items()},
    }


def over_seeds(seeds: list[dict[str, Any]], out: Path) -> dict[str, Any]:
    """The gain since the first measurement and the difference from working alone."""
    runs = [
        SeedRuns(out / one["together"], {c: out / name for c, name in one["alone"].items()})
        for one in seeds
    ]
    compared = together_or_alone(*runs)
    ends = [[outcomes(run.together, end) for run in runs] for end in (None, 0)]
    # A newcomer has not played before the first round.
    last, first = ({c: [seed[c] for seed in end] for c in ends[1][0]} for end in ends)
    gain = paired_differences(last, first, seed=0).micro
    there = {new: together_or_alone(*runs, at=new) for new in seeds[0]["newcomers"]}
    return {
        "gain": gain._asdict(),
        **_compared(compared),
        "newcomers": {new: _compared(found) for new, found in there.items()},
    }


def _compared(found: TogetherOrAlone) -> dict[str, Any]:
    return {
        "together_minus_alone": found.difference.micro._asdict(),
        "games": sum(rate.n for rate in found.together.values()),
        "together": {client: rate.value for client, rate in found.together.items()},
        "alone": {client: rate.value for client, rate in found.alone.items()},
    }


def one_customer(seed: dict[str, Any], out: Path) -> dict[str, Any]:
    """The same held-out game before the first round, by the shop alone, and after the last one."""
    shared, *alone = (
        list_episodes(find_place(str(out / name), out))
        for name in (seed["together"], *seed["alone"].values())
    )
    pair = before_and_after(shared, [episode for listed in alone for episode in listed])
    if pair is None:
        return {}
    texts = [trajectory for _, trajectory in load_texts(pair.played())]
    turns = [[(t.observation, t.action) for t in one.turns] if one else [] for one in texts]
    who = ("before", "alone", "after") if pair.alone else ("before", "after")
    return {"task": pair.before.game.task, **dict(zip(who, turns, strict=True))}


def cases(seeds: list[dict[str, Any]], out: Path) -> Cases:
    """Every game of the seeds, as the questions that they answer."""
    pairs: dict[str, tuple[Games, Games]] = {place: ({}, {}) for place in (HERE, NEW)}
    for one in seeds:
        together = games_of(out / one["together"])
        alone = {shop: games_of(out / name) for shop, name in one["alone"].items()}
        (new,) = one["newcomers"]
        for place, at in ((HERE, None), (NEW, new)):
            both = pairs[place]
            both[0][one["seed"]] = {shop: together[at or shop] for shop in alone}
            both[1][one["seed"]] = {shop: games[at or shop] for shop, games in alone.items()}
    return Cases(
        model=HALF_A_BILLION,
        command="python -m research.desk_seeds docs/results/desk-seeds.json --out RUNS",
        details="how-to/which-base-model.md#see-it-on-a-real-model",
        cpu_hours=round(sum(one["cpu_seconds"] or 0.0 for one in seeds) / 3600, 2),
        cases=[
            Case(where=place, together=together, other=other, first_screen=True)
            for place, (together, other) in pairs.items()
        ],
    )


def with_demonstrations(known: Cases, sweep: Path) -> Cases:
    """The cases, and the same questions against a federation that only sees demonstrations."""
    ran = json.loads(sweep.read_text())["experiments"]
    games = {one["seed"]: games_of(Path(one["run"])) for one in ran}
    alone = [case for case in known.cases if case.against == ALONE]
    added = []
    for case in alone:
        new = case.where == NEW
        shops = ["shoes"] if new else [*case.together[0]]
        together = {
            seed: {shop: found["books" if new else shop] for shop in shops}
            for seed, found in case.together.items()
        }
        other = {seed: {shop: games[seed][shop] for shop in shops} for seed in together}
        added.append(Case(where=case.where, together=together, other=other, against=DEMONSTRATIONS))
    hours = known.cpu_hours + sum(one["cpu_seconds"] for one in ran) / 3600
    return known.model_copy(update={"cases": [*alone, *added], "cpu_hours": round(hours, 2)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sweep", type=Path, help="runs of the method fedit on the same seeds")
    args = parser.parse_args()
    seeds = json.loads(args.result.read_text())["seeds"] if args.result.is_file() else []
    done = {one["seed"] for one in seeds}
    for seed in [seed for seed in args.seeds if seed not in done]:
        seeds = sorted([*seeds, run_seed(seed, args.out)], key=lambda one: one["seed"])
        found = {"seeds": seeds, "over_seeds": over_seeds(seeds, args.out)}
        found["customer"] = one_customer(seeds[0], args.out)
        args.result.write_text(json.dumps(found, indent=1) + "\n")
        every = cases(seeds, args.out).model_dump_json(indent=1)
        args.result.with_name("desk-cases.json").write_text(every + "\n")
        print(seed, json.dumps(found["over_seeds"]), flush=True)
    if args.sweep:
        file = args.result.with_name("desk-cases.json")
        known = Cases.model_validate_json(file.read_bytes())
        file.write_text(with_demonstrations(known, args.sweep).model_dump_json(indent=1) + "\n")


if __name__ == "__main__":
    main()
