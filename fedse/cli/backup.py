"""`fedse backup`: an encrypted copy of what cannot be made again."""

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.cli.phrases import megabytes
from fedse.errors import ConfigError
from fedse.federation.security import note
from fedse.store.backup import back_up, restore

Place = Annotated[Path, Parameter(help="A site's home, a federation's folder, or a run.")]
File = Annotated[Path, Parameter(help="The backup.")]
Key = Annotated[
    str, Parameter(help="A public key of age, or a file of them; with --restore the key's file.")
]
Restore = Annotated[bool, Parameter(help="PLACE is made from the backup; it must not exist.")]


def backup_verb(place: Place, file: File, /, *, key: Key, restore: Restore = False) -> None:
    """The backup has all of PLACE but its logs, or PLACE is as it was backed up.

    Nothing has to be stopped for a backup. It can be read with the secret key alone, which belongs
    on another machine: age-keygen -o backup.key. Start what was restored as before; never start the
    original and the copy.
    """
    if restore:
        _restore(place, file, key)
        return
    if not place.is_dir():
        raise ConfigError(f"{place} is not a folder", hint="name a site's home or a federation")
    if file.resolve().is_relative_to(place.resolve()):
        raise ConfigError(f"{file} is inside {place}", hint="name a file on another disk")
    back_up(place, file, recipient=key)
    print(f"{file}: {megabytes(file.stat().st_size)}")


def _restore(place: Path, file: Path, key: str) -> None:
    restore(file, place, identity=Path(key))
    note(place, "restored", clock=time.time)
    print(f"{place}: {sum(path.is_file() for path in place.rglob('*'))} files")
