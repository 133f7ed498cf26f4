"""A copy of a folder that is being worked in, encrypted to a key; no process has to stop.

Each database is copied by SQLite, as it was at one moment. A ledger is copied before the databases,
so it never records what they lack; lines that it lacks itself are written at the next start. What a
database names is on disk before it is named: files are copied before the databases, and those that
came since afterwards. Encryption is that of the program `age`: whoever has the folder's backup and
not its secret key can read nothing, on this machine or another.
"""

import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Literal

from fedse.errors import MachineError, StoreError, boundary
from fedse.store.database import copy_database
from fedse.store.files import OWNER_ONLY, new_file, new_folder

DATABASE = ".db"
BESIDE = (f"{DATABASE}-wal", f"{DATABASE}-shm")
"""What SQLite keeps beside a database; its copy has it inside."""
LOGS = "logs"


def back_up(folder: Path, target: Path, *, recipient: str) -> None:
    """`target` is everything in the folder but its logs, for the owner of `recipient` alone."""
    named = ["-R", recipient] if Path(recipient).is_file() else ["-r", recipient]
    with new_file(target, mode=OWNER_ONLY) as made:
        command = ["age", "--encrypt", *named, "--output", str(made)]
        with _running(command, stdin=subprocess.PIPE) as sink, _archive(sink, "w|") as archive:
            seen = _add_files(archive, folder, ())
            _add_databases(archive, folder)
            _add_files(archive, folder, seen)


def restore(source: Path, folder: Path, *, identity: Path) -> None:
    """`folder`, which must not exist, has what was backed up."""
    if folder.exists():
        raise StoreError(
            f"{folder} is already there", hint=f"move it away: mv {folder} {folder}.old"
        )
    command = ["age", "--decrypt", "--identity", str(identity), str(source)]
    with new_folder(folder) as made:
        with _running(command, stdout=subprocess.PIPE) as plain, _archive(plain, "r|") as archive:
            archive.extractall(made, filter="data")
        for path in (made, *made.rglob("*")):
            if path.is_dir():
                path.chmod(0o700)


def _add_files(archive: tarfile.TarFile, folder: Path, known: Sequence[Path]) -> list[Path]:
    """Every file that is not `known`, but databases and logs; one that is gone is left out."""
    found = [path for path in _files(folder) if path.suffix != DATABASE]
    for path in found:
        if path not in known:
            try:
                archive.add(path, path.relative_to(folder))
            except FileNotFoundError:
                continue
    return found


def _add_databases(archive: tarfile.TarFile, folder: Path) -> None:
    for path in [one for one in _files(folder) if one.suffix == DATABASE]:
        # Beside the original, which has as much room and as few readers.
        with TemporaryDirectory(dir=folder, prefix=".backup-") as place:
            copy = Path(place) / path.name
            copy_database(path, copy)
            copy.chmod(path.stat().st_mode & 0o777)
            archive.add(copy, path.relative_to(folder))


def _files(folder: Path) -> list[Path]:
    """Those that are to be copied: no socket, no log, nothing that is only being written."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not path.name.endswith(BESIDE)
        and LOGS not in path.relative_to(folder).parts
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


@contextmanager
def _archive(stream: IO[bytes], mode: Literal["r|", "w|"]) -> Iterator[tarfile.TarFile]:
    with boundary(StoreError, "backup"), tarfile.open(fileobj=stream, mode=mode) as archive:
        yield archive


@contextmanager
def _running(
    command: Sequence[str], *, stdin: int | None = None, stdout: int | None = None
) -> Iterator[IO[bytes]]:
    """The pipe to or from a program that does its part; it must succeed."""
    try:
        process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise MachineError("age is not installed", hint="apt-get install age") from None
    with process:
        pipe = process.stdin or process.stdout
        assert pipe is not None
        try:
            yield pipe
        except (StoreError, BrokenPipeError):
            process.kill()
            raise _failed(process) from None
        pipe.close()
        if process.wait():
            raise _failed(process)


def _failed(process: "subprocess.Popen[bytes]") -> StoreError:
    said = process.stderr.read().decode(errors="replace") if process.stderr else ""
    first = next(iter(said.splitlines()), "it said nothing")
    return StoreError(
        f"age failed: {first.removeprefix('age: error: ')}",
        hint="make a key with: age-keygen -o backup.key; --key takes the public key it prints, and "
        "with --restore the file",
    )
