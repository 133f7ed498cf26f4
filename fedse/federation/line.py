"""Whether a site reaches its server, and why not: as the site's node last found it."""

import json
from pathlib import Path
from typing import Literal

from fedse.store.files import OWNER_ONLY, write_if_possible
from fedse.types import Record

FILE = "connection.json"

Reached = Literal["connected", "refused", "unreachable"]


class ServerLine(Record):
    """What a node knows of its way to the server; times of a clock that nobody can set."""

    state: Reached
    reason: str = ""
    """Why it is refused or cannot reach the server."""
    since: float
    sent: float | None = None
    """When its last answer was with the server as a whole."""


def read_line(file: Path) -> ServerLine | None:
    """What is in `file`; None where it is not there or not usable."""
    try:
        return ServerLine.model_validate(json.loads(file.read_text()))
    except (OSError, ValueError):
        return None


def write_line(file: Path, line: ServerLine) -> None:
    """`file` holds it; where it cannot, as on a full disk, what it held before."""
    write_if_possible(file, line.model_dump_json().encode(), mode=OWNER_ONLY)


def line_text(line: ServerLine, server: str) -> str:
    """What a site's console says of it."""
    match line.state:
        case "connected":
            return f"connected to {server}"
        case "refused":
            enrolled = "is this site enrolled, or was it revoked?"
            return f"{server} does not let this site in: {line.reason} ({enrolled})"
        case "unreachable":
            return f"cannot reach {server}: {line.reason}; tries again by itself"
