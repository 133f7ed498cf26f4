"""`fedse runs`: every run on this machine, how it ended, and what it gained."""

import json as json_format
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.api.running import root_of
from fedse.cli.display import Json
from fedse.cli.phrases import counted
from fedse.config.rounds import out_of
from fedse.results.run_list import RunSummary, list_runs


def runs_verb(
    root: Annotated[Path | None, Parameter(help="Folder that contains the runs.")] = None,
    /,
    *,
    json: Json = False,
) -> None:
    """The runs are on stdout, the oldest first."""
    where = root_of(root)
    runs = list_runs(where)
    if json:
        print(json_format.dumps([_plain(run) for run in runs]))
        return
    if not runs:
        print(f"no runs in {where}; make one: fedse demo")
        return
    rows = [("run", "state", "success")]
    rows += [(run.id, status_text(run), success_text(run)) for run in runs]
    ids, states = (max(len(row[column]) for row in rows) for column in (0, 1))
    for run_id, state, success in rows:
        print(f"{run_id:<{ids}}  {state:<{states}}  {success}".rstrip())
    print(f"\nin {where}")


def status_text(run: RunSummary) -> str:
    """The state of a run in words, with how far it got."""
    if run.status == "finished":
        return f"finished, {counted(run.round, 'round')}"
    if run.status in ("not started", "unreadable"):
        return run.status
    return f"{run.status}, round {out_of(run.round, run.rounds)}"


def success_text(run: RunSummary) -> str:
    """Held-out success, first -> last; the cause where a run went wrong."""
    if run.error:
        return run.error.splitlines()[0]
    if run.first is None:
        return ""
    last = f" -> {run.last.value:.2f}" if run.last else ""
    return f"{run.first.value:.2f}{last}"


def _plain(run: RunSummary) -> dict[str, object]:
    counts = {
        key: {"won": rate.successes, "played": rate.n} if rate else None
        for key, rate in (("first", run.first), ("last", run.last))
    }
    return {**run.model_dump(mode="json"), **counts}
