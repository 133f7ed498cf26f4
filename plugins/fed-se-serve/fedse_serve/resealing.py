"""What of a service's records a key makes unreadable, for the command that changes the key."""

from collections.abc import Mapping
from pathlib import Path

from fedse.store.resealing import SealedFile
from fedse_serve.place import FOLDER
from fedse_serve.schema import FILE, open_file

KEYS: Mapping[str, tuple[str, ...]] = {"turn": ("session", "number"), "feedback": ("id",)}
"""By table with a sealed body, the columns that name a row."""
HIDDEN: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("session", "turn", "feedback", "harvest"), ("session",)
)
"""By table, the columns with hidden names."""


def sealed_files(home: Path) -> list[SealedFile]:
    """The records of the service in a site's folder, if it has one."""
    path = home / FOLDER / FILE
    return [SealedFile(path, open_file, KEYS, HIDDEN)] if path.is_file() else []
