"""Files that are complete or absent; durable ones also after a power cut."""

import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedse.errors import StoreError, boundary

OWNER_ONLY = 0o600
"""Mode of what only its owner may read; it holds from the first byte on."""
BY_UMASK = 0o666


def from_backup(file: Path, *, then: str = "") -> str:
    """How to go on when a file that cannot be made again is not what was written."""
    back = f"put {file.name} back from a backup of {file.parent}"
    return f"{back}, then: {then}" if then else back


@contextmanager
def new_file(target: Path, *, mode: int = BY_UMASK) -> Iterator[Path]:
    """An empty file to be filled; it becomes `target` if the block succeeds, else it is removed."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    # A file left by an earlier process of the same id may have another mode.
    temporary.unlink(missing_ok=True)
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """An empty folder to be filled; it becomes `target` if the block succeeds, else it is removed.

    A `target` that holds something already is left as it is, and an OSError tells.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_whole(target: Path, data: bytes, *, mode: int = BY_UMASK) -> None:
    """`target` holds all of `data`, or what it held before, whenever this process is killed."""
    with boundary(StoreError, f"write {target}"), new_file(target, mode=mode) as file:
        file.write_bytes(data)


def write_if_possible(target: Path, data: bytes, *, mode: int = BY_UMASK) -> None:
    """As `write_whole`; where it cannot be written, as on a full disk, nothing has changed."""
    with suppress(StoreError):
        write_whole(target, data, mode=mode)


def write_durably(target: Path, data: bytes, *, mode: int = BY_UMASK) -> None:
    """As `write_whole`, even if the machine stops in between; afterwards it is on disk."""
    with boundary(StoreError, f"write {target}"):
        with new_file(target, mode=mode) as temporary, temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(target.parent)


def add_line(file: Path, line: bytes) -> None:
    """`line` is in the file, for its owner alone; lines of several processes never mix."""
    opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, OWNER_ONLY)
    try:
        os.write(opened, line)  # in one piece
    finally:
        os.close(opened)


def append_whole(file: Path, line: bytes) -> None:
    """`file` ends with all of `line`, or, if that could not be written, with none of it."""
    with boundary(StoreError, f"write {file}"), file.open("ab", buffering=0) as log:
        before = log.seek(0, os.SEEK_END)
        try:
            written = log.write(line)
            if written < len(line):
                log.write(line[written:])
        except OSError:
            log.truncate(before)
            raise


def mapped(file: Path) -> mmap.mmap:
    """The bytes of a file that is not empty and that nobody changes, without a copy of them.

    What was looked at is in memory as long as the object is alive. Nobody can write to it.
    """
    with boundary(StoreError, f"read {file}"), file.open("rb") as opened:
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def sync_folder(folder: Path) -> None:
    """The names in `folder` are on disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
