"""`fedse resume RUN`: continue after the last committed round."""

import sys
from typing import Annotated

from cyclopts import Parameter

from fedse.api import running
from fedse.cli.console import shown
from fedse.cli.display import Json, Plain, mode_of
from fedse.cli.result import print_result
from fedse.cli.run import EngineOption
from fedse.store.run_folder import find_run, run_config

RunName = Annotated[str, Parameter(help="Path or id of the run, or `last` (started last).")]


def resume_verb(
    run: RunName = "last",
    /,
    *,
    engine: EngineOption = "local",
    json: Json = False,
    plain: Plain = False,
) -> None:
    """All rounds are committed; the result is the same as without the interruption."""
    path = find_run(run, running.root_of(None))
    mode = mode_of(sys.stderr, json=json, plain=plain)
    config, log = run_config(path), path / "events.jsonl"
    with shown(mode, config, log=log) as observer:
        result = running.resume(path, engine=engine, on_event=observer)
    print_result(result, mode)
