"""Kinds of games that a site plays, and the tasks of each.

A task is (kind, number), written `coin,numLocations=3/12`. The number is the simulator's, and its
folds for training and for testing have no number in common, so no choice of options makes one
site's training task another's test task.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fedse import ConfigError, Task
from fedse.envs import Split, wrong_option
from fedse_textworld.simulator import problem_of, seeds_of
from fedse_textworld.solutions import Begin, has_word, parted, solve, texts_read, words_of

GAMES = (
    "arithmetic",
    "coin",
    "cookingworld",
    "mapreader",
    "peckingorder",
    "simonsays",
    "sorting",
    "twc",
)
KEYS = ("game", "params", "words")


class Kind(NamedTuple):
    """A game, its parameters as the simulator reads them, and the words its solutions have."""

    game: str
    params: str
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        return ",".join(part for part in (self.game, self.params, *self.words) if part)


def kinds_of(option: str, given: Any) -> tuple[Kind, ...]:
    """The kinds that a name, a table or a list of these stands for, each once, in this order."""
    entries = [given] if isinstance(given, str | Mapping) else list(given)
    kinds = tuple(dict.fromkeys(_kind(option, entry) for entry in entries))
    if not kinds:
        raise wrong_option("textworld", option, given, "at least one game")
    return kinds


def _kind(option: str, entry: Any) -> Kind:
    table = entry if isinstance(entry, Mapping) else {"game": entry}
    if table.get("game") not in GAMES or not set(table) <= set(KEYS):
        expected = f"one of {', '.join(GAMES)}, or a table of {', '.join(KEYS)}"
        raise wrong_option("textworld", option, entry, expected)
    params, words = table.get("params", {}), table.get("words", [])
    if isinstance(words, str) or not all(isinstance(word, str) and word for word in words):
        raise wrong_option("textworld", f"{option}.words", words, "a list of words")
    if not isinstance(params, Mapping) or not all(type(n) is int for n in params.values()):
        raise wrong_option("textworld", f"{option}.params", params, "a table of whole numbers")
    written = ",".join(f"{key}={value}" for key, value in sorted(params.items()))
    if problem := problem_of(table["game"], written):
        raise wrong_option("textworld", f"{option}.params", params, f"valid ({problem})")
    return Kind(table["game"], written, tuple(words))


class Length(NamedTuple):
    """How long episodes are."""

    begin: Begin
    most: int
    """How many turns there are."""


def tasks_of(
    kinds: tuple[Kind, ...], split: Split, per_kind: int, length: Length
) -> tuple[Task, ...]:
    """Up to `per_kind` tasks of each kind; any first part of the list is mixed."""
    numbers = [_numbers(kind, split, per_kind, length) for kind in kinds]
    return tuple(
        Task(env="textworld", id=f"{kind.name}/{of_kind[place]}", split=split)
        for place in range(per_kind)
        for kind, of_kind in zip(kinds, numbers, strict=True)
        if place < len(of_kind)
    )


@lru_cache(maxsize=256)
def _numbers(kind: Kind, split: Split, count: int, length: Length) -> tuple[int, ...]:
    """The first episodes of the kind that can be solved in time, none of which begins and is solved
    as an earlier one."""
    distinct: dict[object, int] = {}
    for number in seeds_of(kind.game, split):
        text = words_of(kind.game, kind.params, split, number)
        if not text or not all(has_word(text, word) for word in kind.words):
            continue
        solution = solve(kind.game, kind.params, split, number)
        made, to_do = parted(solution, length.begin)
        if len(to_do) <= length.most:
            actions = tuple(move.action for move in to_do)
            distinct.setdefault((solution.task, to_do[0].before, texts_read(made), actions), number)
        if len(distinct) == count:
            break
    if not distinct:
        raise ConfigError(
            f"environment 'textworld': no {split} task of {kind.game} can be solved in "
            f"{length.most} turns with {', '.join(kind.words) or 'these parameters'}",
            hint="raise max_turns or set begin; change words, which are looked for in the "
            "actions of the solution, in what it reads and in the names of its rooms",
        )
    return tuple(distinct.values())
