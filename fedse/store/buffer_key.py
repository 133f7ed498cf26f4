"""The key a buffer is encrypted with: where a site says it is, made once, replaced by a newer one.

A key file holds 64 hexadecimal digits and is readable by its owner only. While a buffer goes over
to a new key, that key lies beside the old one (`buffer.key.new`): whichever of the two the buffer
is written with after a crash, it is there.
"""

import os
import secrets
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from fedse.config.storage import StorageSection
from fedse.errors import StoreError, boundary
from fedse.store.buffer_schema import open_file
from fedse.store.files import OWNER_ONLY, from_backup, sync_folder, write_durably
from fedse.store.resealing import (
    FileSeal,
    SealedFile,
    fitting_seal,
    key_id_of,
    reseal,
    reseal_beside,
)
from fedse.store.sealing import KEY_BYTES, UNSEALED, KeyedSeal, Seal
from fedse.store.sweeping import is_unswept, sweep

IN_ENVIRONMENT = "env:"
"""Begins a setting that names an environment variable instead of a file."""


def key_path(home: Path, setting: str) -> Path:
    """The file that `storage.key` names; a relative path begins at the client's folder."""
    return home / Path(os.path.expandvars(setting)).expanduser()


def coming(path: Path) -> Path:
    """Where the key is that a buffer is about to go over to."""
    return path.with_name(f"{path.name}.new")


def make_key(path: Path) -> Seal:
    """A new key is in `path`, which did not exist."""
    if path.exists():
        raise StoreError(f"{path} already exists, and a key must not be overwritten")
    with boundary(StoreError, f"{path} cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_durably(path, f"{secrets.token_hex(KEY_BYTES)}\n".encode(), mode=OWNER_ONLY)
    return read_key(path)


def read_key(path: Path) -> Seal:
    """The seal of the key in `path`; a file that others may read is refused."""
    with boundary(StoreError, f"key {path}"):
        if not path.exists():
            raise StoreError(
                f"there is no key file {path}, so the buffer cannot be read",
                hint=f"{from_backup(path)}; a site without a buffer gets a key by: "
                f"fedse privacy encrypt --key FILE",
            )
        if path.stat().st_mode & 0o077:
            raise StoreError(f"key {path} can be read by others", hint=f"chmod 600 {path}")
        text = path.read_text(encoding="ascii")
    return _parsed(text, f"key {path}", from_backup(path))


def seal_for(home: Path, settings: StorageSection, environ: Mapping[str, str]) -> Seal:
    """The seal of the client's buffer, as its own settings say; none where they name no key."""
    if not settings.key:
        return UNSEALED
    if settings.key.startswith(IN_ENVIRONMENT):
        name = settings.key.removeprefix(IN_ENVIRONMENT)
        if name not in environ:
            raise StoreError(
                f"storage.key names the environment variable {name}, which is not set",
                hint=f"set {name} to the 64 hexadecimal digits of the key",
            )
        return _parsed(environ[name], f"environment variable {name}", f"set {name} anew")
    path = key_path(home, settings.key)
    _finish_rotation(home / "buffer.db", path)
    return read_key(path)


def encrypt_buffer(buffer: Path, path: Path, *, beside: Iterable[SealedFile] = ()) -> int:
    """The buffer is encrypted with the key in `path`, made if there was none; rows written anew.

    So are the files `beside` it. A crash leaves each as it was or encrypted, and giving the same
    command again ends the work.
    """
    seal = read_key(path) if path.exists() else make_key(path)
    with closing(open_file(buffer)) as db:
        if key_id_of(db):
            fitting_seal(db, seal)
        changed = reseal_beside(beside, [UNSEALED], seal)
        if not key_id_of(db):
            return changed + reseal(db, FileSeal(UNSEALED, buffer), seal)
        if is_unswept(db):
            sweep(db)
        return changed


def rotate_key(buffer: Path, path: Path, *, beside: Iterable[SealedFile] = ()) -> int:
    """The buffer is encrypted with a new key, which is in `path`; rows written anew.

    So are the files `beside` it. The old key is gone, and with it whatever copies of the old files
    hold.
    """
    _finish_rotation(buffer, path)
    newer = coming(path)
    before, after = read_key(path), read_key(newer) if newer.exists() else make_key(newer)
    with closing(open_file(buffer)) as db:
        fitting = fitting_seal(db, before)
        # The buffer comes last: once it is under the new key, the old one is given up.
        changed = reseal_beside(beside, [before, UNSEALED], after)
        changed += reseal(db, fitting, after)
    _put_in_place(newer, path)
    return changed


def seal_beside(buffer: Path) -> Seal:
    """The seal of a buffer that is looked at from outside: as the site's or the run's file says."""
    home = buffer.parent
    for file in (home / "site.toml", home.parent.parent / "config.resolved.toml"):
        if file.is_file():
            with boundary(StoreError, f"{file}", hint=from_backup(file)):
                own = tomllib.loads(file.read_text(encoding="utf-8")).get("storage", {})
                settings = StorageSection(key=str(own.get("key", "")))
            return seal_for(home, settings, os.environ)
    return UNSEALED


def _finish_rotation(buffer: Path, path: Path) -> None:
    """The key file holds the key that the buffer is written with, after a crash too."""
    newer = coming(path)
    if not newer.is_file() or not buffer.is_file():
        return
    with closing(open_file(buffer)) as db:
        own = key_id_of(db)
    if own == read_key(newer).key_id:
        _put_in_place(newer, path)


def _put_in_place(newer: Path, path: Path) -> None:
    with boundary(StoreError, f"{path} cannot be replaced"):
        newer.replace(path)
        sync_folder(path.parent)


def _parsed(text: str, what: str, hint: str) -> Seal:
    try:
        return KeyedSeal(bytes.fromhex(text.strip()))
    except ValueError:
        digits = 2 * KEY_BYTES
        raise StoreError(f"{what} does not hold {digits} hexadecimal digits", hint=hint) from None
