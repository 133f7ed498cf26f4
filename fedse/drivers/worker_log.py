"""What libraries print while clients work is in a file of the run, and not on the screen."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

LOG = "workers.log"
OWN = str(Path(__file__).parents[1])
"""The folder of this package."""


def print_to(log: Path) -> None:
    """Whatever this process prints from now on is added to `log`, including output of C code."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(file, standard)
    os.close(file)


@contextmanager
def warnings_to(log: Path) -> Iterator[None]:
    """Warnings that other packages give meanwhile are added to `log`; our own are shown."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def write(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if filename.startswith(OWN):
                show(message, category, filename, lineno, file, line)
                return
            text = warnings.formatwarning(message, category, filename, lineno, line)
            # A full disk does not end what was only warned about.
            with suppress(OSError), log.open("a", encoding="utf-8") as kept:
                kept.write(text)

        replaced: Any = write
        warnings.showwarning = replaced
        yield
