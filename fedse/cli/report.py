"""`fedse report RUN...`: one HTML file that shows what happened, to read or to share."""

import os
import sys
import time
import webbrowser
from datetime import datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.errors import ConfigError, StoreError, boundary
from fedse.report.facts import read_facts, with_distinct_labels
from fedse.report.page import render
from fedse.store.run_folder import find_run, runs_root


def report_verb(
    *runs: Annotated[str, Parameter(help="Paths or ids of runs, or `last`; default: last.")],
    out: Annotated[
        Path | None,
        Parameter(help="The file; default: report.html in the run, or here for several runs."),
    ] = None,
    open: Annotated[bool, Parameter(help="Show it in the browser.")] = False,
) -> None:
    """The page is written and its path is on stdout."""
    paths = [find_run(name, runs_root(os.environ)) for name in runs or ("last",)]
    repeated = sorted({path.name for path in paths if _count(path, paths) > 1})
    if repeated:
        raise ConfigError(f"a run is named twice: {', '.join(repeated)}", hint="name each run once")
    target = out or (paths[0] / "report.html" if len(paths) == 1 else Path("report.html"))
    facts = with_distinct_labels([read_facts(path, clock=time.time) for path in paths])
    page = render(facts, now=datetime.now())
    elsewhere = "choose a file in a folder you may write to: --out FILE"
    with boundary(StoreError, f"{target} cannot be written", hint=elsewhere):
        target.write_text(page, encoding="utf-8")
    print(target)
    if open and not webbrowser.open(target.resolve().as_uri()):
        print("no browser was found to open it with", file=sys.stderr)


def _count(path: Path, paths: list[Path]) -> int:
    return sum(path.resolve() == other.resolve() for other in paths)
