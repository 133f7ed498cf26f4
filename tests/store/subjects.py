"""Episodes about persons, and what a buffer's files hold of them."""

from collections.abc import Sequence
from pathlib import Path

from fedse.store.buffer import Buffer, RolloutPart
from fedse.store.sealing import UNSEALED, KeyedSeal, Seal
from fedse.types import Task, Trajectory, Turn

KEY = bytes(range(32))
PERSONS = ("ada quill", "bo ferris", "cy nadir")
SEALS = {"plain": lambda: UNSEALED, "sealed": lambda: KeyedSeal(KEY)}


def subject_of(task: Task) -> str | None:
    """Task 7 is about the second of three persons; a task of no number is about nobody."""
    return PERSONS[int(task.id) % len(PERSONS)] if task.id.isdecimal() else None


def told(number: int) -> str:
    """Words that only the episode of this task has; longer than what a page is searched by."""
    person = PERSONS[number % len(PERSONS)]
    return f"confidential {number:04d}: " + " ".join([f"{person} said {number * 7919}"] * 40)


def episode(number: int, *, round: int = 1, outcome: str = "success") -> Trajectory:
    return Trajectory(
        task=Task(env="desk", id=str(number), split="train"),
        seed=number,
        turns=(Turn(observation=told(number), action=f"answer {number}"),),
        outcome=outcome,
        reward=1.0,
        policy="p",
        round=round,
    )


def fill(buffer: Buffer, numbers: Sequence[int], *, round: int = 1) -> None:
    """The games of a round: learned from, on record, and a part of the round under way."""
    games = [episode(number, round=round) for number in numbers]
    buffer.add(games, experiment="e")
    buffer.record_played(games, experiment="e", bodies=True)
    for game in games:
        part = RolloutPart("e", round, "train", game.seed, f"{game.seed:064d}")
        buffer.keep_part(part, [game])


def opened(path: Path, seal: Seal = UNSEALED, **given: object) -> Buffer:
    return Buffer(path, seal=seal, **{"subject_of": subject_of, **given})


def bytes_of(path: Path) -> bytes:
    """The file, its log and its index, one after another."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


def content_of(buffer: Buffer) -> list[object]:
    """All that the methods of a buffer tell of experiment e."""
    lessons = [*buffer.lessons("e", 99)]
    return [
        lessons,
        [lesson.content_digest for lesson in lessons],
        [*buffer.played("e")],
        [*buffer.kept("e")],
        buffer.tallies("e", before=99),
        buffer.kept_by_task("e", before=99),
        [buffer.said("e", game) for game in buffer.games("e")],
        [[*buffer.lessons("e", number, "round")] for number in range(4)],
    ]
