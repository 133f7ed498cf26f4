"""Whether a site can reach its server, and why not, as its node last observed."""

import json
from pathlib import Path
from typing import Literal

from fedse.store.files import OWNER_ONLY, write_if_possible
from fedse.types import Record

FILE = "connection.json"

Reached = Literal["connected", "refused", "unreachable"]


class ServerLine(Record):
    """What a node knows about its connection to the server; times of a monotonic clock."""

    state: Reached
    reason: str = ""
    """Why it is refused or cannot reach the server."""
    since: float
    sent: float | None = None
    """When the server had received its last answer completely."""


def read_line(file: Path) -> ServerLine | None:
    """The content of `file`; None if it is missing or unusable."""
    try:
        return ServerLine.model_validate(json.loads(file.read_text()))
    except (OSError, ValueError):
        return None


def write_line(file: Path, line: ServerLine) -> None:
    """`file` holds it; if that fails, as on a full disk, it keeps its earlier content."""
    write_if_possible(file, line.model_dump_json().encode(), mode=OWNER_ONLY)


def line_text(line: ServerLine, server: str) -> str:
    """How a site's console reports it."""
    match line.state:
        case "connected":
            return f"connected to {server}"
        case "refused":
            enrolled = "is this site enrolled, or was it revoked?"
            return f"{server} refuses this site: {line.reason} ({enrolled})"
        case "unreachable":
            return f"cannot reach {server}: {line.reason}; retrying"
