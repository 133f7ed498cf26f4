"""Adapters that arrived after their round was closed, in a folder of the run."""

from pathlib import Path
from typing import NamedTuple

from fedse.store.files import write_durably
from fedse.store.run import Run

FOLDER, SUFFIX = "late", ".safetensors"
KEPT_FILES = 20
"""Of those that can no longer count, the newest are kept for diagnosis."""


class LateReply(NamedTuple):
    """An adapter as it arrived, and for which round it was made."""

    round: int
    client: str
    file: Path


def keep_late(run: Run, round: int, client: str, adapter: bytes) -> None:
    """The adapter is durable, and of those that can no longer count not too many are left."""
    folder = run.path / FOLDER
    folder.mkdir(exist_ok=True)
    write_durably(folder / f"{round:03d}-{client}{SUFFIX}", adapter)
    oldest = (run.committed or 0) + 1 - run.config.aggregate.late
    # By round first: the time of a file is wrong if the clock was set in between.
    for old in sorted(late_replies(run), key=_age)[:-KEPT_FILES]:
        if old.round < oldest or not run.config.aggregate.late:
            old.file.unlink()


def late_replies(run: Run) -> list[LateReply]:
    """What is kept, the earliest round first."""
    files = sorted((run.path / FOLDER).glob(f"[0-9]*-*{SUFFIX}"))
    parts = [(file.name.removesuffix(SUFFIX).partition("-"), file) for file in files]
    return sorted(LateReply(int(number), client, file) for (number, _, client), file in parts)


def _age(reply: LateReply) -> tuple[int, int]:
    return reply.round, reply.file.stat().st_mtime_ns
