"""`fedse doctor`: is this machine ready, and if not, how to fix it?"""

import json as json_format
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from fedse.cli.display import Json, plain_wanted
from fedse.config.file import load_config
from fedse.doctor import Diagnosis, examine
from fedse.errors import MachineError
from fedse.store.run_folder import runs_root

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor_verb(
    config: Annotated[Path | None, Parameter(help="Also check what this file needs.")] = None,
    /,
    *,
    json: Json = False,
) -> None:
    """Every finding is on stdout; the exit code is 3 if one of them is `fail`."""
    settings = load_config(config) if config is not None else None
    findings = examine(runs_root(os.environ), os.environ, settings)
    if json:
        print(json_format.dumps([finding._asdict() for finding in findings]))
    else:
        console = Console(no_color=plain_wanted(sys.stdout), highlight=False, soft_wrap=True)
        for finding in findings:
            console.print(_line(finding))
    failed = [finding for finding in findings if finding.status == "fail"]
    if failed:
        raise MachineError(f"{len(failed)} of {len(findings)} checks failed")


def _line(finding: Diagnosis) -> Text:
    line = Text(f"{finding.status:<6}", style=STYLES[finding.status])
    line.append(finding.what, style="default")
    if finding.fix:
        line.append(f"\n      fix: {finding.fix}", style="default")
    return line
