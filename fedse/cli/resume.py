"""`fedse resume RUN`: go on after the last committed round."""

import os
import sys
import time
from contextlib import closing
from typing import Annotated

from cyclopts import Parameter

from fedse.cli.console import shown
from fedse.cli.display import Json, Plain, mode_of
from fedse.cli.drive import drive, require_machine, tell_result
from fedse.cli.run import EngineOption
from fedse.config.file import load_config
from fedse.store.run_folder import find_run, open_run, runs_root

RunName = Annotated[str, Parameter(help="Path or id of the run, or `last`.")]


def resume_verb(
    run: RunName = "last",
    /,
    *,
    engine: EngineOption = "local",
    json: Json = False,
    plain: Plain = False,
) -> None:
    """The run has all its rounds; the result is the same as without the stop."""
    path = find_run(run, runs_root(os.environ))
    require_machine(engine)
    mode = mode_of(sys.stderr, json=json, plain=plain)
    with shown(mode, load_config(path / "config.resolved.toml")) as observer:
        opened = open_run(path, clock=time.time, observers=[observer])
        drive(opened, engine, observer)
    with closing(opened):
        tell_result(opened, mode)
