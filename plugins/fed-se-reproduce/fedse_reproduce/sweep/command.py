"""`fedse sweep EXPERIMENT --grid KEY=A,B --seeds 0-4`: one table over settings and seeds."""

import json as json_format
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.api.checks import require_runnable
from fedse.cli.display import Json
from fedse.cli.phrases import counted
from fedse.cli.run import DryRun, Set
from fedse.config.file import experiment_text
from fedse.config.methods import METHODS
from fedse.config.shipped import SHIPPED
from fedse.errors import require_all
from fedse.store.files import write_durably
from fedse.store.run_folder import runs_root
from fedse_reproduce.progress import Plan, do_all, progress_of
from fedse_reproduce.sweep.grid import axes_of, cells_of, jobs_of_cells, seeds_of
from fedse_reproduce.sweep.results import as_json, results_of
from fedse_reproduce.sweep.rows import require_format, rows_of, write_rows
from fedse_reproduce.sweep.tell import plan_text, text
from fedse_reproduce.tables import Job

Source = Annotated[
    Path, Parameter(help=f"The experiment file (TOML), or one of {', '.join(SHIPPED)}.")
]
Grid = Annotated[
    list[str],
    Parameter(
        help="Try these values of a setting, as in train.lr=1e-4,2e-4; every combination with "
        "those of other --grid is a cell.",
        show_default=False,
    ),
]
Methods = Annotated[
    str | None,
    Parameter(
        help=f"Try these methods, separated by commas: {', '.join(METHODS)}. The local ones run "
        "every site alone, and all of its sites count together."
    ),
]
Seeds = Annotated[str, Parameter(help="Which seeds, as in 0-4 or 0,3,7.")]
Jobs = Annotated[int | None, Parameter(help="Experiments at a time; default: one per core.")]
Kept = Annotated[
    Path | None, Parameter(help="Folder for runs and results; what it has is not done again.")
]
LongTable = Annotated[
    Path | None,
    Parameter(
        help="Also write every count, a row per cell, seed, round, site and record: .parquet, "
        ".csv or .json."
    ),
]


def sweep_verb(
    experiment: Source,
    /,
    *,
    grid: Grid = [],  # noqa: B006  cyclopts reads the default, nobody changes it
    method: Methods = None,
    seeds: Seeds = "0-2",
    set_: Set = [],  # noqa: B006  as above
    jobs: Jobs = None,
    out: Kept = None,
    table: LongTable = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """All cells have been run with all seeds, and each is compared with the first."""
    if table is not None:
        require_format(table)
    axes, chosen = axes_of(grid, method), seeds_of(seeds)
    cells = cells_of(axes)
    todo = jobs_of_cells(experiment_text(experiment), str(experiment), cells, chosen, set_)
    _require_runnable(todo)
    root = out or runs_root(os.environ).parent / "sweeps" / todo[0].config.run.name
    if dry_run:
        print(plan_text(cells, progress_of(todo, root)))
        return
    size = f"{counted(len(cells), 'cell')}, {counted(len(chosen), 'seed')}"
    workers, file = jobs or os.cpu_count() or 1, root / "sweep.json"
    found = do_all(Plan(f"sweep of {experiment}", size, str(file), workers, None), todo, root)
    results = results_of(cells, todo, found)
    told = json_format.dumps(as_json(results, todo, found, str(root)))
    write_durably(file, f"{told}\n".encode())
    if table is not None:
        write_rows(list(rows_of(cells, todo, found)), table)
    print(told if json else text(results, axes, len(chosen)))


def _require_runnable(todo: Sequence[Job]) -> None:
    """Every cell can run here, before the first one is started."""
    configs = {job.arm: job.config for job in reversed(todo)}.values()
    require_all(*(partial(require_runnable, config, "local") for config in configs))
