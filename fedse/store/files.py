"""Files that are whole or not there, also after a power cut."""

import os
from pathlib import Path

from fedse.errors import StoreError, boundary


def write_durably(target: Path, data: bytes) -> None:
    """`target` holds all of `data` or does not exist, even if the machine stops in between."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with boundary(StoreError, f"write {target}"):
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
