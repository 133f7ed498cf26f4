"""Turn a sweep of research/kitchens.toml into the cases of the table of verdicts.

    fedse sweep research/kitchens.toml --method fed-se,local-evolve --seeds 0-4 --out SWEEP
    python -m research.kitchen_cases SWEEP docs/results/kitchens-cases.json

The sweep continues where it was stopped; a seed counts once all of its experiments are done. A
kitchen's personal adapter has taken the same number of steps together and alone.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from fedse.store.files import write_durably
from fedse_reproduce.jobs import Found
from research.verdicts import Case, Cases, Games

TOGETHER, ALONE = "method=fed-se", "method=local-evolve"
PLACES = {
    "test-personal": "a kitchen, two kinds of recipes; four kinds that no kitchen has",
    "home-personal": "a kitchen, two kinds of recipes; new recipes of these kinds",
}
"""Record -> what is asked. A newcomer's first day is the common adapter in the first of them."""
NEWCOMER = "nothing, it has just joined; four kinds of recipes that no kitchen has"


def found_games(sweep: Path) -> dict[str, dict[int, dict[str, dict[str, str]]]]:
    """Cell -> seed -> record -> kitchen -> its games after the last round: 1 = won."""
    games: dict[str, dict[int, dict[str, dict[str, str]]]] = {}
    for one in json.loads((sweep / "sweep.json").read_bytes())["experiments"]:
        file = sweep / "found" / f"{Path(one['run']).name}.json"
        by_record = Found.model_validate_json(file.read_bytes()).games
        of_seed = games.setdefault(one["cell"], {}).setdefault(one["seed"], {})
        for record, by_round in by_record.items():
            of_seed.setdefault(record, {}).update(by_round[max(by_round)])
    return games


def cases(games: Mapping[str, Mapping[int, Mapping[str, Mapping[str, str]]]]) -> list[Case]:
    """Together against alone, in every place."""

    def at(cell: str, record: str) -> Games:
        return {seed: dict(by[record]) for seed, by in games[cell].items()}

    asked = [
        Case(where=where, together=at(TOGETHER, record), other=at(ALONE, record), first_screen=True)
        for record, where in PLACES.items()
    ]
    first_day = Case(where=NEWCOMER, together=at(TOGETHER, "test"), other=at(ALONE, "test"))
    return [*asked, first_day]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    ran = json.loads((args.sweep / "sweep.json").read_bytes())["experiments"]
    told = Cases(
        model="Qwen2.5-Coder-0.5B, de-quantised Q4_K_M",
        command="fedse sweep research/kitchens.toml --method fed-se,local-evolve --seeds 0-4",
        details="results.md#does-it-pay-off",
        cpu_hours=round(sum(one["cpu_seconds"] for one in ran) / 3600, 2),
        cases=cases(found_games(args.sweep)),
    )
    write_durably(args.out, f"{told.model_dump_json(indent=1)}\n".encode())


if __name__ == "__main__":
    main()
