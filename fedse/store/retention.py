"""Which files of a run a resume needs, and that the others are removed.

A resume needs the adapter of the last committed round and what the outer optimiser remembers after
it. The adapter the run began with is kept as well: everything is measured against it.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fedse.adapters.peft_folder import WEIGHTS, linked
from fedse.errors import StoreError, boundary
from fedse.store.late_replies import late_replies
from fedse.store.run import Run

LEAST_KEPT = 2
"""The adapter of the last committed round, and the one before, that it is compared with."""
LOOKED_BACK = 16
"""Older rounds that are looked at after a commit: their files are still there if a process was
killed before it removed them. `fedse gc` looks at all."""


class Removable(NamedTuple):
    """A file or folder that nothing needs any more."""

    path: Path
    why: str


def _kept(run: Run, keep: int) -> int:
    """How many of the newest rounds keep their adapters: late votes are compared with theirs."""
    return max(keep, LEAST_KEPT, run.config.aggregate.late + 1)


def keep_newest_rounds(run: Run, keep: int) -> None:
    """The adapters of the newest `keep` rounds are kept, and that of round 0; 0 = of all."""
    oldest = (run.committed or 0) + 1 - _kept(run, keep)
    remove(old_rounds(run, keep, since=oldest - LOOKED_BACK))


def old_rounds(run: Run, keep: int, *, since: int = 0) -> Iterator[Removable]:
    """Blobs and folders of rounds from `since` on that are not kept."""
    last = run.committed
    if not keep or last is None:
        return
    kept = {0, *range(max(0, last + 1 - _kept(run, keep)), last + 1)}
    stored = run.stored(since=since)
    needed = {one.adapter for one in stored if one.round in kept} | {*stored[-1].moments}
    for one in stored:
        folder = run.adapter_folder(one.round)
        if one.round not in kept and folder.exists():
            yield Removable(folder, f"adapter after round {one.round}")
    for digest in sorted({d for one in stored for d in (one.adapter, *one.moments)} - needed):
        if run.blob(digest).exists():
            yield Removable(run.blob(digest), "adapter or moments of a round that is not kept")


def leftovers(run: Run) -> Iterator[Removable]:
    """What a killed process or an abandoned round left; only while nobody works on the run."""
    named = {digest for one in run.stored() for digest in (one.adapter, *one.moments)}
    for file in sorted((run.path / "blobs").iterdir()):
        if file.name.startswith("."):
            yield Removable(file, "a write that was cut short")
        elif file.suffix == ".safetensors" and file.stem not in named:
            yield Removable(file, "an adapter of no committed round")
    for folder in sorted((run.path / "adapters").glob(".*")):
        yield Removable(folder, "an export that was cut short")
    for file in sorted((run.path / "inbox").glob("*")):
        yield Removable(file, "a reply to an abandoned round")


def old_late_replies(run: Run, keep: int) -> Iterator[Removable]:
    """Replies that came after their round was closed, of rounds that are not kept."""
    first = (run.committed or 0) + 1 - _kept(run, keep)
    for late in late_replies(run):
        if keep and late.round < first:
            yield Removable(late.file, f"a late reply to round {late.round}")


def copies(run: Run) -> Iterator[tuple[Path, Path]]:
    """Blobs and exported weights that have the same bytes and do not share the disk yet."""
    for index in run.kept_rounds():
        blob, export = run.blob(run.digest(index)), run.adapter_folder(index) / WEIGHTS
        if export.is_file() and not export.samefile(blob) and _same_bytes(blob, export):
            yield blob, export


def share(pairs: Iterable[tuple[Path, Path]]) -> None:
    """Each pair is one file with two names, where the disk can do that."""
    for blob, export in pairs:
        linked(blob, export)


def remove(found: Iterable[Removable]) -> None:
    for one in list(found):
        with boundary(StoreError, f"{one.path} cannot be removed"):
            if one.path.is_dir():
                shutil.rmtree(one.path)
            else:
                one.path.unlink(missing_ok=True)


def _same_bytes(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while piece := left.read(1 << 20):
            if piece != right.read(1 << 20):
                return False
    return True
