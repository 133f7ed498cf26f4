"""`fedse reproduce TABLE`: recompute a table of the docs, from pinned settings and seeds."""

import os
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Annotated

from cyclopts import Parameter

from fedse.api.checks import require_machine, require_members
from fedse.cli.phrases import counted
from fedse.cli.run import Set
from fedse.errors import ConfigError, require_all
from fedse.store.files import write_durably
from fedse.store.run_folder import installed_versions, runs_root
from fedse.suggest import closest
from fedse_reproduce.jobs import key_of
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.progress import Plan, do_all
from fedse_reproduce.results import TableResult, gather, worlds_of
from fedse_reproduce.tables import (
    QUICK_SEEDS,
    Job,
    arms_of,
    jobs_of,
    questions_of,
    require_arms,
)
from fedse_reproduce.tell import markdown, text


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
    result = make(table, chosen, root, quick=quick, jobs=workers, changed=set_)
    trial = bool(set_) or first_seed > 0
    file = result_file(root, table, quick=quick, trial=trial)
    write_durably(file, _json(result).encode())
    write_durably(file.with_suffix(".md"), markdown(result).encode())
    print(_json(result) if json else text(result, None if trial else expected(table)))


def result_file(root: Path, table: str, *, quick: bool, trial: bool) -> Path:
    """Where the result is kept; beside it is the same as Markdown."""
    return root / f"{table}{'-quick' * quick}{'-trial' * trial}.json"


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
    file = result_file(root, table, quick=quick, trial=bool(changed) or seeds[0] > 0)
    outcomes = do_all(
        Plan(
            title=TABLES[table].title,
            size=f"{counted(len(wanted), 'arm')}, {counted(len(seeds), 'seed')}",
            files=f"{file} and .md",
            jobs=jobs,
            cpu_seconds=None if changed else published_seconds(todo, expected(table)),
        ),
        todo,
        root,
    )
    return TableResult(
        table=table,
        quick=quick,
        worlds=worlds_of(todo),
        arms=gather(todo, outcomes),
        questions=[(q.better, q.worse) for q in questions_of(TABLES[table], wanted)],
        config=todo[0].config.model_dump(mode="json"),
        versions=installed_versions(),
    )


def expected(table: str) -> TableResult | None:
    """The result that is shipped with the package, if there is one."""
    file = files("fedse_reproduce").joinpath("expected", f"{table}.json")
    return TableResult.model_validate_json(file.read_text()) if file.is_file() else None


def published_seconds(todo: Sequence[Job], published: TableResult | None) -> float | None:
    """CPU seconds that these experiments took when they were published; None = one was not.

    Arms that show other sides of the same experiments count once.
    """
    keys: dict[tuple[str, int], set[str]] = {}
    for job in todo:
        keys.setdefault((job.arm, job.seed), set()).add(key_of(job))
    arms = {frozenset(own): arm for (arm, _), own in keys.items()}.values()
    if published is None or not {*arms} <= published.arms.keys():
        return None
    return sum(fmean(s.cpu_seconds for s in published.arms[arm].values()) for arm in arms)
