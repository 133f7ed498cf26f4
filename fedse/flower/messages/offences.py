"""Replies the SuperLink refused, reported to the server's app in a file in the run's folder.

Flower does not report this: a site whose reply was refused would look as if it went offline.
"""

import json
import os
from pathlib import Path

FILE = "offences.jsonl"


def note_offence(file: Path, question: str, what: str) -> None:
    """A line says that the reply to `question` was refused; `what` quotes nothing that arrived."""
    line = json.dumps({"question": question, "what": what}) + "\n"
    to = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        # One call, so that a reader never sees two lines mixed.
        os.write(to, line.encode())
    finally:
        os.close(to)


class OffenceReader:
    """Reads what was noted since it last looked."""

    def __init__(self, file: Path) -> None:
        self._file, self._read = file, 0

    def new(self) -> dict[str, str]:
        """By question, what was wrong with the reply; each is given once."""
        if not self._file.exists() or self._file.stat().st_size <= self._read:
            return {}
        with self._file.open("rb") as lines:
            lines.seek(self._read)
            text = lines.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        noted = map(json.loads, whole.splitlines())
        return {line["question"]: line["what"] for line in noted}
