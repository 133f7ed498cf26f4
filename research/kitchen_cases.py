"""Add a sweep of research/kitchens.toml to the cases of the table of verdicts.

    FEDSE_MODELS=FOLDER fedse sweep research/kitchens.toml --method fed-se,local-evolve \
        --seeds 0-4 --jobs 1 --out SWEEP
    python -m research.kitchen_cases SWEEP docs/results/kitchens-cases.json
    python -m research.kitchen_cases --references docs/results/kitchens.json

Seeds that are in the file stay, so the sweep may be done in parts and on several machines. The
references play all held-out tasks without a model: a script that does what it is told word by word,
one that also knows the two ways of heating of its kitchen, and the expert.
"""

import argparse
import json
import re
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fedse.store.files import write_durably
from fedse_reproduce.jobs import Found
from fedse_textworld.env import TextWorld
from research.measure_textworld import Player, expert, play
from research.verdicts import HALF_A_BILLION, Case, Cases, Games

TOGETHER, ALONE = "method=fed-se", "method=local-evolve"
PLACES = {
    "test": "a kitchen, two kinds of recipes; four kinds that no kitchen has",
    "home": "a kitchen, two kinds of recipes; new recipes of these kinds",
}
"""Record -> what is asked."""
HEATS = {"fry": "stove", "roast": "oven", "grill": "toaster"}
DETAILS = "explanation/when-it-pays.md#a-real-language-model"
EXPERIMENT = Path(__file__).with_name("kitchens.toml")


def found_games(sweep: Path) -> dict[str, dict[str, Games]]:
    """Record -> cell -> seed -> kitchen -> its games after the last round: 1 = won."""
    games: dict[str, dict[str, Games]] = {record: {} for record in PLACES}
    for one in json.loads((sweep / "sweep.json").read_bytes())["experiments"]:
        file = sweep / "found" / f"{Path(one['run']).name}.json"
        found = Found.model_validate_json(file.read_bytes()).games
        for record, cells in games.items():
            last = found[record][max(found[record])]
            cells.setdefault(one["cell"], {}).setdefault(one["seed"], {}).update(last)
    return games


def with_seeds(known: Cases, games: Mapping[str, Mapping[str, Games]], cpu_hours: float) -> Cases:
    """The cases with the seeds of a sweep; what was known of a seed is replaced."""
    before = {case.where: case for case in known.cases}
    cases = []
    for record, where in PLACES.items():
        old = before.get(where, Case(where=where, together={}, other={}, first_screen=True))
        together = dict(sorted({**old.together, **games[record][TOGETHER]}.items()))
        other = dict(sorted({**old.other, **games[record][ALONE]}.items()))
        cases.append(old.model_copy(update={"together": together, "other": other}))
    hours = round(known.cpu_hours + cpu_hours, 2)
    return known.model_copy(update={"cases": cases, "cpu_hours": hours})


def knows(heats: frozenset[str], world: TextWorld, told: list[str], done: list[str]) -> str:
    """Does what it is told word by word, heats in the two ways of its kitchen, and eats."""
    possible = set(world.actions())
    phrases = re.split("[;:] ", f"{told[0]}; eat meal")
    for heat, food in (phrase.split(" ", 1) for phrase in phrases if " " in phrase):
        action = f"cook {food} in {HEATS[heat]}" if heat in heats else f"{heat} {food}"
        if action in possible and action not in done:
            return action
    return world.actions()[0]


def references() -> dict[str, dict[str, list[int]]]:
    """Kitchen -> script -> held-out tasks won, and all of them."""
    found: dict[str, dict[str, list[int]]] = {}
    for client in tomllib.loads(EXPERIMENT.read_text())["clients"]:
        options: dict[str, Any] = client["options"]
        words = {word for game in options["games"] for word in game["words"]}
        players: dict[str, Player] = {
            "word by word": partial(knows, frozenset()),
            "knows its two ways": partial(knows, frozenset(words & HEATS.keys())),
            "expert": expert,
        }
        for name, player in players.items():
            ends = play(TextWorld(**options), player, [])
            won = sum(step.success for step, _ in ends)
            found.setdefault(client["name"], {})[name] = [won, len(ends)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path, nargs="?")
    parser.add_argument("out", type=Path)
    parser.add_argument("--references", action="store_true")
    args = parser.parse_args()
    if args.references:
        told = json.dumps(references(), indent=1)
    else:
        ran = json.loads((args.sweep / "sweep.json").read_bytes())["experiments"]
        known = Cases(
            model=HALF_A_BILLION,
            command="fedse sweep research/kitchens.toml --method fed-se,local-evolve --seeds 0-4",
            details=DETAILS,
            cpu_hours=0.0,
            cases=[],
        )
        if args.out.is_file():
            known = Cases.model_validate_json(args.out.read_bytes())
        hours = sum(one["cpu_seconds"] for one in ran) / 3600
        told = with_seeds(known, found_games(args.sweep), hours).model_dump_json(indent=1)
    write_durably(args.out, f"{told}\n".encode())


if __name__ == "__main__":
    main()
