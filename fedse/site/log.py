"""The worker's log: only its owner can read it, and it does not grow without limit."""

import logging
import os
from collections.abc import Callable
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import cast

from fedse.errors import MachineError, boundary
from fedse.store.files import OWNER_ONLY

MOST_BYTES = 16 << 20
BEFORE = 3
"""How many earlier parts are kept, as worker.log.1 and so on."""


class OwnersLog(RotatingFileHandler):
    """A log that may quote what an agent saw."""

    def _open(self) -> TextIOWrapper:
        opened = os.open(self.baseFilename, os.O_CREAT | os.O_WRONLY | os.O_APPEND, OWNER_ONLY)
        return cast(TextIOWrapper, open(opened, self.mode, encoding=self.encoding))


class RedactedLines(logging.Formatter):
    """Lines and tracebacks that passed `redact` as a whole."""

    def __init__(self, form: str, redact: Callable[[str], str]) -> None:
        super().__init__(form)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def log_to(
    home: Path, log: logging.Logger, *, redact: Callable[[str], str] = lambda text: text
) -> None:
    """What is logged is in HOME/worker.log, and nowhere else, after it passed `redact`."""
    with boundary(MachineError, f"log in {home}"):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        handler = OwnersLog(
            home / "worker.log", maxBytes=MOST_BYTES, backupCount=BEFORE, encoding="utf-8"
        )
    handler.setFormatter(RedactedLines("%(asctime)s %(levelname)s %(message)s", redact))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
