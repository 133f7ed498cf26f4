"""A disk of a few megabytes that can really be full: a tmpfs, which root may mount."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.needs import needs

FILLING = ".filling"


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """`folder` is a disk of that size; nothing of it is left afterwards."""
    needs("tmpfs")
    folder.mkdir(parents=True, exist_ok=True)
    size = f"size={megabytes}m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        # Lazily: a process that is being ended may still have a file open.
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> None:
    """No byte is free on the disk of `folder`."""
    with (folder / FILLING).open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def free(folder: Path) -> None:
    """What `fill` took is free again."""
    (folder / FILLING).unlink(missing_ok=True)


def takes_nothing(folder: Path) -> bool:
    """Whether not even a page can be written there."""
    try:
        (folder / ".probe").write_bytes(bytes(os.sysconf("SC_PAGE_SIZE")))
    except OSError as error:
        return error.errno == errno.ENOSPC
    finally:
        (folder / ".probe").unlink(missing_ok=True)
    return False
