"""How hard the games of TextWorldExpress are without a model, and what they cost.

    python -m research.measure_textworld docs/results/textworld.json --tasks 40

Held-out tasks of every game with its default parameters, one row per game: success of chance, of a
script that only repeats what it was told, and of the expert; the expert's turns; the longest list
of possible actions; CPU milliseconds of Python and the virtual machine together, per turn of the
random player and per task that is solved for the list of tasks. The table is Markdown.
"""

import argparse
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from time import process_time

import psutil

from fedse.envs.base import Step
from fedse.seeds import seed_of
from fedse.stats.rates import Rate
from fedse_textworld import simulator
from fedse_textworld.env import TextWorld
from fedse_textworld.kinds import GAMES

Player = Callable[[TextWorld, list[str], list[str]], str]
"""From the world, all it has told and all that was done to the next action."""


def cpu_seconds() -> float:
    """Of this process and its virtual machine."""
    java = psutil.Process(simulator._machine(os.getpid()).java_process.pid).cpu_times()
    return process_time() + java.user + java.system


def chance(random: Random) -> Player:
    return lambda world, told, done: random.choice(world.actions())


def repeat(world: TextWorld, told: list[str], done: list[str]) -> str:
    """The first phrase of the newest text that is possible as it stands and was not done before;
    else the first possible action."""
    possible = {action.casefold() for action in world.actions()}
    for text in reversed(told):
        for phrase in re.split(r"[;:,.'\n]+", text.casefold()):
            words = " ".join(word for word in phrase.split() if word != "the")
            if words in possible and (text == told[-1] or words not in done):
                return words
    return world.actions()[0]


def expert(world: TextWorld, told: list[str], done: list[str]) -> str:
    return world.expert()


def play(world: TextWorld, player: Player, seen: list[int]) -> list[tuple[Step, int]]:
    """The end of every held-out task and the number of its turns."""
    ends = []
    for task in world.tasks("test"):
        step, told, done = world.reset(task, seed=0), list[str](), list[str]()
        while not step.done:
            told.append(step.observation)
            seen.append(len(world.actions()))
            done.append(player(world, told, done))
            step = world.step(done[-1])
        ends.append((step, len(done)))
    return ends


def measured(game: str, count: int) -> dict[str, object]:
    world = TextWorld(games=game, prompt="short", tasks_per_kind=[1, count])
    started = cpu_seconds()
    found = len(world.tasks("test"))
    solved = 1000 * (cpu_seconds() - started) / found
    seen: list[int] = []
    started = cpu_seconds()
    random = play(world, chance(Random(seed_of("textworld", game))), seen)
    per_turn = 1000 * (cpu_seconds() - started) / sum(turns for _, turns in random)
    players = {"chance": random, "repeats": play(world, repeat, seen),
               "expert": play(world, expert, seen)}  # fmt: skip
    wins = {name: sum(step.success for step, _ in ends) for name, ends in players.items()}
    turns = [turns for _, turns in players["expert"]]
    row = {"game": game, "tasks": found, "wins": wins, "turns": [median(turns), max(turns)],
           "actions": max(seen), "ms_per_turn": per_turn, "ms_per_task": solved}  # fmt: skip
    rates = [Rate(won, found) for won in wins.values()]
    cells = [f"{r.value:.2f} ({r.interval.low:.2f}-{r.interval.high:.2f})" for r in rates]
    cells += [
        f"{median(turns):g}, {max(turns)}",
        str(max(seen)),
        f"{per_turn:.1f}",
        f"{solved:.0f}",
    ]
    print(f"| {game} | {' | '.join(cells)} |", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, default=40)
    args = parser.parse_args()
    print("| game | chance | repeats | expert | its turns | actions | ms/turn | ms/task |")
    print("|---|---|---|---|---|---|---|---|")
    rows = [measured(game, args.tasks) for game in GAMES]
    args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
