"""The cases of research/kitchens.toml for the table of verdicts, and what scripts reach there.

    FEDSE_MODELS=FOLDER fedse sweep research/kitchens.toml --seeds 0-4 --jobs 2 --out SWEEP \
        --method fed-se,local-evolve,fedit,central-evolve
    FEDSE_MODELS=FOLDER fedse sweep research/kitchens.toml --seeds 0-4 --jobs 2 --out PERSONAL \
        --method fed-se --set personal.steps=12 --set personal.lr=1.25e-4
    python -m research.kitchen_cases SWEEP PERSONAL docs/results/kitchens-cases.json
    python -m research.kitchen_cases --heats SWEEP PERSONAL docs/results/kitchens-heats.json
    python -m research.kitchen_cases --references docs/results/kitchens.json

Several folders of sweeps, of other seeds or methods, are read as one. The heats are the games won
and played by what has to be heated how. The references play all held-out tasks without a model: a
script that does what it is told word by word, one that also knows the two ways of heating of its
kitchen, and the expert.
"""

import argparse
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from fedse.results.held_out import HeldOutGame, evaluations, games
from fedse.store.files import write_durably
from fedse_reproduce.jobs import RECORDS
from fedse_textworld.env import TextWorld
from research.measure_textworld import Player, expert, play
from research.verdicts import (
    ALONE,
    DEMONSTRATIONS,
    HALF_A_BILLION,
    POOLED,
    Case,
    Cases,
    Games,
)

NEW = "a kitchen, two kinds of recipes; four kinds that no kitchen has"
HOME = "a kitchen, two kinds of recipes; new recipes of these kinds"
COMMON = "the common adapter"
Arm = tuple[str, str]
"""Method of the sweep, and which games: `home-personal` are those of the sites' own adapters."""
Held = dict[int, dict[str, list[HeldOutGame]]]
"""Seed -> kitchen -> its games after the last round."""


class Question(NamedTuple):
    """One row of the table of verdicts: two arms in the same games."""

    where: str
    together: Arm
    other: Arm
    against: str = ALONE
    first_screen: bool = False


QUESTIONS = (
    Question(NEW, ("fed-se", "test"), ("local-evolve", "test"), first_screen=True),
    Question(HOME, ("fed-se", "home"), ("local-evolve", "home"), first_screen=True),
    Question(NEW, ("fed-se", "test"), ("fedit", "test"), DEMONSTRATIONS),
    Question(HOME, ("fed-se", "home"), ("fedit", "home"), DEMONSTRATIONS),
    Question(NEW, ("fed-se", "test"), ("central-evolve", "test"), POOLED),
    Question(HOME, ("fed-se", "home"), ("central-evolve", "home"), POOLED),
    Question(
        f"{NEW}, after personal steps", ("fed-se", "test-personal"), ("fed-se", "test"), COMMON
    ),
    Question(
        f"{HOME}, after personal steps", ("fed-se", "home-personal"), ("fed-se", "home"), COMMON
    ),
)
HEATS = {"fry": "stove", "roast": "oven", "grill": "toaster"}
DETAILS = "explanation/when-it-pays.md#a-real-language-model"
METHODS = "fed-se,local-evolve,fedit,central-evolve"
COMMAND = f"fedse sweep research/kitchens.toml --method {METHODS} --seeds 0-4"
EXPERIMENT = Path(__file__).with_name("kitchens.toml")


def held_out(sweeps: Sequence[Path]) -> dict[Arm, Held]:
    """What the sweeps played; an arm that two of them have counts once."""
    found: dict[Arm, Held] = {}
    for one in (one for sweep in sweeps for one in experiments(sweep)):
        run, method = Path(one["run"]), one["cell"].removeprefix("method=")
        last = max(evaluations(run))
        for record in RECORDS:
            if played := {client: own for client, own in games(run, last, record).items() if own}:
                found.setdefault((method, record), {}).setdefault(one["seed"], {}).update(played)
    return found


def as_bits(seeds: Held) -> Games:
    return {
        seed: {client: "".join("01"[one.success] for one in own) for client, own in by.items()}
        for seed, by in seeds.items()
    }


def experiments(sweep: Path) -> list[dict[str, Any]]:
    ran: list[dict[str, Any]] = json.loads((sweep / "sweep.json").read_bytes())["experiments"]
    return ran


def cases_of(sweeps: Sequence[Path]) -> Iterator[Case]:
    """The questions that the sweeps answer, each on the seeds that both arms have played."""
    found = {arm: as_bits(of_arm) for arm, of_arm in held_out(sweeps).items()}
    for one in QUESTIONS:
        together, other = found.get(one.together, {}), found.get(one.other, {})
        seeds = sorted(together.keys() & other.keys())
        if seeds:
            yield Case(
                where=one.where,
                together={seed: together[seed] for seed in seeds},
                other={seed: other[seed] for seed in seeds},
                against=one.against,
                first_screen=one.first_screen,
            )


def by_heat(sweeps: Sequence[Path]) -> dict[str, dict[str, dict[str, list[int]]]]:
    """Method -> record -> way of heating -> games won after the last round, and played."""
    counts: dict[str, dict[str, dict[str, list[int]]]] = {}
    for (method, record), seeds in held_out(sweeps).items():
        of_record = counts.setdefault(method, {}).setdefault(record, {})
        for game in chain.from_iterable(own for by in seeds.values() for own in by.values()):
            (heat,) = HEATS.keys() & game.task.rpartition("/")[0].split(",")
            count = of_record.setdefault(heat, [0, 0])
            count[0] += game.success
            count[1] += 1
    return counts


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
    parser.add_argument("sweeps", type=Path, nargs="*")
    parser.add_argument("out", type=Path)
    parser.add_argument("--heats", action="store_true")
    parser.add_argument("--references", action="store_true")
    args = parser.parse_args()
    if args.references:
        told = json.dumps(references(), indent=1)
    elif args.heats:
        told = json.dumps(by_heat(args.sweeps), indent=1)
    else:
        seconds = sum(one["cpu_seconds"] for sweep in args.sweeps for one in experiments(sweep))
        told = Cases(
            model=HALF_A_BILLION,
            command=COMMAND,
            details=DETAILS,
            cpu_hours=round(seconds / 3600, 2),
            cases=list(cases_of(args.sweeps)),
        ).model_dump_json(indent=1)
    write_durably(args.out, f"{told}\n".encode())


if __name__ == "__main__":
    main()
