"""`fedse reproduce TABLE`: recompute a table of the docs, from pinned settings and seeds."""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.api.checks import require_machine, require_members
from fedse.cli.phrases import counted
from fedse.cli.run import Set
from fedse.errors import ConfigError, Interrupted, require_all
from fedse.store.files import write_durably
from fedse.store.run_folder import installed_versions, runs_root
from fedse.suggest import closest
from fedse_reproduce.jobs import Found, do_jobs
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.progress import progress_of
from fedse_reproduce.results import TableResult, gather
from fedse_reproduce.tables import (
    QUICK_SEEDS,
    Job,
    arms_of,
    jobs_of,
    questions_of,
    require_arms,
)
from fedse_reproduce.tell import markdown, text

LOOK_SECONDS = 10.0
"""Between two looks at how far the experiments are."""


def reproduce_verb(
    table: Annotated[str, Parameter(help=f"One of {', '.join(TABLES)}.")],
    /,
    *,
    quick: Annotated[bool, Parameter(help="Fewer arms, one seed.")] = False,
    seeds: Annotated[
        int | None, Parameter(help="How many seeds; quick 1, else the table's.")
    ] = None,
    first_seed: Annotated[
        int, Parameter(help="The published tables start at 0; use another for your own trials.")
    ] = 0,
    set_: Set = [],  # noqa: B006  only read
    jobs: Annotated[int | None, Parameter(help="Processes; default: one per core.")] = None,
    out: Annotated[Path | None, Parameter(help="Folder for runs and results.")] = None,
    json: Annotated[bool, Parameter(help="Print the result file.", show_default=False)] = False,
) -> None:
    """The table is printed beside the expected one and saved; after a stop it continues."""
    if table not in TABLES:
        near = closest(table, list(TABLES))
        raise ConfigError(
            f"there is no table {table!r}; expected one of {', '.join(TABLES)}",
            hint=f"did you mean {near!r}?" if near else "",
        )
    count = seeds if seeds is not None else QUICK_SEEDS if quick else TABLES[table].seeds
    if count < 1 or first_seed < 0:
        given = f"--seeds {count} --first-seed {first_seed}"
        raise ConfigError(f"expected one seed or more, the first at least 0, got {given}")
    require_arms(table, arms_of(TABLES[table], quick=quick))
    root = out if out is not None else runs_root(os.environ).parent / "reproduce"
    workers, chosen = jobs or os.cpu_count() or 1, range(first_seed, first_seed + count)
    try:
        result = make(table, chosen, root, quick=quick, jobs=workers, changed=set_)
    except KeyboardInterrupt:
        raise Interrupted(
            "stopped; finished experiments and committed rounds are kept",
            hint="the same command continues from there",
        ) from None
    trial = "-trial" if set_ or first_seed else ""
    _write(result, root, f"{table}{'-quick' if quick else ''}{trial}")
    print(_json(result) if json else text(result, None if trial else expected(table)))


def _write(result: TableResult, root: Path, name: str) -> None:
    write_durably(root / f"{name}.json", _json(result).encode())
    write_durably(root / f"{name}.md", markdown(result).encode())
    print(f"result file  {root / name}.json\n", file=sys.stderr)


def _json(result: TableResult) -> str:
    return result.model_dump_json() + "\n"


def make(
    table: str, seeds: range, root: Path, *, quick: bool, jobs: int, changed: Sequence[str] = ()
) -> TableResult:
    """The result of the table, every experiment in `root` finished.

    `changed`: settings as `section.key=value` that replace the pinned ones.
    """
    wanted = arms_of(TABLES[table], quick=quick)
    todo = jobs_of(wanted, seeds, changed)
    configs = {job.arm: job.config for job in todo}.values()
    members = [partial(require_members, config) for config in configs]
    require_all(partial(require_machine, "local"), *members)
    print("\n".join(_banner(table, todo, root, jobs)), file=sys.stderr, flush=True)
    with _rounds_shown(todo, root):
        outcomes = do_jobs(todo, root, workers=jobs, tell=_print_progress)
    return TableResult(
        table=table,
        quick=quick,
        worlds=_worlds(todo),
        arms=gather(todo, outcomes),
        questions=[(q.better, q.worse) for q in questions_of(TABLES[table], wanted)],
        config=todo[0].config.model_dump(mode="json"),
        versions=installed_versions(),
    )


def _banner(table: str, todo: Sequence[Job], root: Path, jobs: int) -> list[str]:
    """What is about to be done, and what was done before."""
    arms, seeds = len({job.arm for job in todo}), len({job.seed for job in todo})
    before = progress_of(todo, root)
    whole = f"{counted(arms, 'arm')}, {counted(seeds, 'seed')}: "
    whole += f"{counted(before.experiments, 'experiment')} of {counted(before.rounds, 'round')}"
    done = f"finished before: {before.finished} experiments, {before.committed} rounds"
    return [
        TABLES[table].title,
        f"{whole} in all, {jobs} at a time",
        *([done] if before.committed else []),
        f"kept in {root}; if you stop it, the same command continues\n",
    ]


@contextmanager
def _rounds_shown(todo: Sequence[Job], root: Path) -> Iterator[None]:
    """How many rounds are committed is on stderr whenever that changed."""
    ended, began = threading.Event(), time.monotonic()

    def show() -> None:
        shown = progress_of(todo, root).committed
        while not ended.wait(LOOK_SECONDS):
            now = progress_of(todo, root)
            if now.committed != shown:
                shown, minutes = now.committed, (time.monotonic() - began) / 60
                line = f"{now.committed} of {now.rounds} rounds after {minutes:.1f} min"
                print(line, file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _worlds(jobs: Sequence[Job]) -> dict[str, dict[str, str]]:
    """Arm -> client -> environment."""
    worlds: dict[str, dict[str, str]] = {}
    for job in jobs:
        worlds.setdefault(job.arm, {}).update({one.name: one.env for one in job.config.clients})
    return worlds


def expected(table: str) -> TableResult | None:
    """The result that is shipped with the package, if there is one."""
    file = files("fedse_reproduce").joinpath("expected", f"{table}.json")
    return TableResult.model_validate_json(file.read_text()) if file.is_file() else None


def _print_progress(done: int, total: int, job: Job, outcome: Found) -> None:
    seconds = f"{outcome.cpu_seconds:.0f} CPU-s"
    line = f"{done} of {total}  {job.config.run.name} seed {job.seed}  {seconds}"
    print(line, file=sys.stderr, flush=True)
