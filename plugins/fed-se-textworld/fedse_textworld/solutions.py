"""What solves an episode: the simulator's own actions, without those that lead nowhere."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from fedse.envs import Split
from fedse_textworld.simulator import Turn, borrowed

NOT = "not "
Begin = int | tuple[str, ...] | None
"""Where an episode begins: that many actions before the end of the solution, or at the first of its
actions with one of these verbs; None = at the beginning of the game."""
_ROOM = re.compile(r"You are in the [^.]+\.")


class Move(NamedTuple):
    """One action of a solution, what the simulator says to it, and what is seen before it."""

    action: str
    told: str
    before: str


class Solution(NamedTuple):
    """The task of an episode, and the moves that solve it; no moves = the simulator does not."""

    task: str
    moves: tuple[Move, ...]


class _Done(NamedTuple):
    move: Move
    after: Turn
    is_news: bool
    """It showed something for the first time."""


@lru_cache(maxsize=1024)
def solve(game: str, params: str, split: Split, seed: int) -> Solution:
    """The solution of an episode, the same in every process.

    The simulator explores at random. An action, or a walk, that shows nothing new and ends where it
    began is left out.
    """
    with borrowed(game, params) as played:
        actions = played.solution(split, seed)
        first, task = played.begin(split, seed)
        done: list[_Done] = []
        seen, turn = {task, first.observation, first.surroundings}, first
        for action in actions:
            before, turn = f"{turn.surroundings}{turn.inventory}", played.act(action)
            news = {turn.observation, turn.surroundings} - seen
            seen |= news
            done.append(_Done(Move(action, turn.observation, before), turn, bool(news)))
            del done[_needed(first, done) :]
            if turn.solved:
                break
    return Solution(task, tuple(one.move for one in done) if turn.solved else ())


def _needed(first: Turn, done: Sequence[_Done]) -> int:
    """How many moves lead to where the last one ends, if those after them showed nothing new."""
    end = done[-1].after._replace(observation="")
    for count in range(len(done) - 1, -1, -1):
        if done[count].is_news:
            break
        there = done[count - 1].after if count else first
        if there._replace(observation="") == end:
            return count
    return len(done)


def parted(solution: Solution, begin: Begin) -> tuple[tuple[Move, ...], tuple[Move, ...]]:
    """The moves that are made before the episode, and those that the agent has to do."""
    moves = solution.moves
    if begin is None:
        made = 0
    elif isinstance(begin, int):
        made = max(0, len(moves) - begin)
    else:
        verbs = (place for place, move in enumerate(moves) if move.action.split()[0] in begin)
        made = next(verbs, 0)
    return moves[:made], moves[made:]


def texts_read(moves: Iterable[Move]) -> tuple[str, ...]:
    """What was read in each book, map or note, the last time."""
    return tuple({m.action: m.told for m in moves if m.action.startswith("read ")}.values())


@lru_cache(maxsize=20_000)
def words_of(game: str, params: str, split: Split, seed: int) -> str:
    """The actions of a solution, what it reads, and the names of its rooms; empty = no solution.

    Kept for longer than the solution, which takes much more room.
    """
    moves = solve(game, params, split, seed).moves
    rooms = dict.fromkeys(room for move in moves for room in _ROOM.findall(move.before))
    return "\n".join([*(move.action for move in moves), *texts_read(moves), *rooms])


def has_word(text: str, word: str) -> bool:
    """Whether the word is in the text; with `not` before it, whether it is not."""
    found = re.search(rf"\b{re.escape(word.removeprefix(NOT))}\b", text)
    return bool(found) != word.startswith(NOT)
