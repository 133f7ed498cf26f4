"""`fedse gc`: free disk space that nothing needs any more."""

import json as json_format
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.cli.display import Json
from fedse.cli.phrases import counted, megabytes
from fedse.config.file import load_config, with_own_settings
from fedse.errors import ConfigError
from fedse.store.gc import FREE_PAGES, Freed, collect_outbox, collect_run, compact
from fedse.store.lock import locked
from fedse.store.outbox import LEAST_KEPT
from fedse.store.run_folder import find_run, held, open_run, runs_root

Place = Annotated[
    str, Parameter(help="Path or id of a run, `last`, a federation's folder, or a site's home.")
]
Rounds = Annotated[
    int | None, Parameter(help="Rounds whose adapters a run keeps; default: storage.rounds.")
]
Answers = Annotated[
    int | None, Parameter(help="Answers whose adapters a site keeps; default: storage.answers.")
]
DryRun = Annotated[bool, Parameter(help="Only show what would be removed.")]


def gc_verb(
    place: Place = "last",
    /,
    *,
    rounds: Rounds = None,
    answers: Answers = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Old adapters, leftovers and free pages are gone; everything a resume needs is kept."""
    for name, kept in (("--rounds", rounds), ("--answers", answers)):
        if kept is not None and kept != 0 and kept < LEAST_KEPT:
            raise ConfigError(f"{name} must be 0 (all) or at least {LEAST_KEPT}, got {kept}")
    freed = _collect(Path(place), place, rounds, answers, dry_run=dry_run)
    if json:
        print(json_format.dumps([{**one._asdict(), "path": str(one.path)} for one in freed]))
        return
    _print(freed, dry_run=dry_run)


def _collect(
    folder: Path, place: str, rounds: int | None, answers: int | None, *, dry_run: bool
) -> list[Freed]:
    if (folder / "site.toml").is_file():
        return _home(folder, answers, dry_run=dry_run)
    if (folder / "federation.toml").is_file():
        with _idle(folder, f"fedse federation start --dir {folder}"):
            freed = _run(folder / "run", rounds, answers, dry_run=dry_run)
            return freed + _superlink(folder / "superlink.db", dry_run=dry_run)
    return _run(find_run(place, runs_root(os.environ)), rounds, answers, dry_run=dry_run)


def _run(path: Path, rounds: int | None, answers: int | None, *, dry_run: bool) -> list[Freed]:
    with held(path), closing(open_run(path, clock=time.time)) as run:
        settings = run.config.storage
        return collect_run(
            run,
            rounds=settings.rounds if rounds is None else rounds,
            answers=settings.answers if answers is None else answers,
            dry_run=dry_run,
        )


def _home(home: Path, answers: int | None, *, dry_run: bool) -> list[Freed]:
    settings = with_own_settings(load_config(home / "experiment.toml"), home / "site.toml").storage
    keep = settings.answers if answers is None else answers
    with _idle(home, f"fedse site start --home {home}"):
        return collect_outbox(home / "buffer.db", answers=keep, dry_run=dry_run)


def _superlink(database: Path, *, dry_run: bool) -> list[Freed]:
    freed = compact(database, dry_run=dry_run) if database.is_file() else 0
    return [Freed(database, FREE_PAGES, freed)] if freed else []


def _idle(folder: Path, command: str) -> AbstractContextManager[None]:
    """No other process works in `folder` meanwhile."""
    busy = f"{folder} is in use by `{command}`"
    again = f"stop it (Ctrl-C, or its service), then: fedse gc {folder}"
    return locked(folder, busy=busy, hint=again)


def _print(freed: Sequence[Freed], *, dry_run: bool) -> None:
    for one in freed:
        print(f"{megabytes(one.bytes):>10}  {one.path}: {one.what}")
    done = "would be freed" if dry_run else "freed"
    print(f"{megabytes(sum(one.bytes for one in freed))} {done} in {counted(len(freed), 'place')}")
