"""Replies the SuperLink refused, reported to the server's app in a file in the run's folder.

Flower does not report this: a site whose reply was refused would look as if it went offline.
"""

import json
from pathlib import Path

from fedse.observers.follow import NewLines
from fedse.store.files import add_line

FILE = "offences.jsonl"


def note_offence(file: Path, question: str, what: str) -> None:
    """A line says that the reply to `question` was refused; `what` quotes nothing that arrived."""
    line = json.dumps({"question": question, "what": what}) + "\n"
    add_line(file, line.encode())


class OffenceReader:
    """Reads what was noted since it last looked."""

    def __init__(self, file: Path) -> None:
        self._lines = NewLines(file, seen=0)

    def new(self) -> dict[str, str]:
        """By question, what was wrong with the reply; each is given once."""
        noted = map(json.loads, self._lines.read())
        return {line["question"]: line["what"] for line in noted}
