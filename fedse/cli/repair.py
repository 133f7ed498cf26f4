"""`fedse repair`: save what can be read of a damaged database, and say what else is damaged."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fedse.cli.phrases import counted
from fedse.errors import StoreError
from fedse.store.buffer_key import seal_beside
from fedse.store.buffer_schema import open_file
from fedse.store.gc import client_databases
from fedse.store.lock import locked
from fedse.store.resealing import stated_key
from fedse.store.run import Run, open_state
from fedse.store.run_folder import find_run, open_run, runs_root
from fedse.store.salvage import is_whole, salvage
from fedse.store.sealing import UNSEALED, Seal

Place = Annotated[
    str, Parameter(help="Path or id of a run, `last`, a federation's folder, or a site's home.")
]


def repair_verb(place: Place = "last", /) -> None:
    """Every database there is whole; what could not be read is beside it, and was named."""
    folder = Path(place)
    if (folder / "site.toml").is_file():
        with _idle(folder):
            _mend_buffer(folder / "buffer.db")
        return
    run = folder / "run" if (folder / "federation.toml").is_file() else None
    run = run or find_run(place, runs_root(os.environ))
    with _idle(folder if run.parent == folder else run):
        _mend(run / "state.db", open_state)
        for database in client_databases(run):
            _mend_buffer(database)
        with closing(open_run(run)) as opened:
            _require_blobs(opened)


def _mend_buffer(database: Path) -> None:
    if not database.is_file():
        return
    seal, own = seal_beside(database), stated_key(database)
    if own not in (None, seal.key_id):
        # With another key every row would look damaged.
        raise StoreError(
            f"{database} is encrypted with key {own or 'none'}, given is {seal.key_id or 'none'}",
            hint="put the key file back, or correct [storage] key in site.toml",
        )
    _mend(database, open_file, seal)


def _mend(database: Path, create: Callable[[Path], Any], seal: Seal = UNSEALED) -> None:
    if not database.is_file():
        return
    if is_whole(database, seal):
        print(f"{database} is whole")
        return
    aside, kept, dropped = salvage(database, create, seal)
    rows = ", ".join(f"{table} {count}" for table, count in kept.items() if count)
    print(f"{database} was damaged and is now {aside.name}; saved rows: {rows}")
    if dropped:
        print(f"left out: {counted(dropped, 'row')} that was not as written")


def _require_blobs(run: Run) -> None:
    """The adapters that the run keeps are as they were written."""
    problems = list(_damaged_blobs(run))
    if problems:
        raise StoreError("; ".join(str(problem) for problem in problems), hint=problems[-1].hint)
    print(f"{run.path / 'blobs'}: {counted(len(run.kept_rounds()), 'adapter')} as written")


def _damaged_blobs(run: Run) -> Iterator[StoreError]:
    for index in run.kept_rounds():
        try:
            run.adapter(index)
        except StoreError as error:
            yield error


def _idle(folder: Path) -> AbstractContextManager[None]:
    hint = f"stop what works there (Ctrl-C, or its service), then: fedse repair {folder}"
    return locked(folder, busy=f"{folder} is in use", hint=hint)
