"""`fedse privacy encrypt`: episodes on this disk can be read with a key only."""

from pathlib import Path
from typing import Annotated

import tomlkit
from cyclopts import Parameter

from fedse.cli.phrases import counted
from fedse.cli.site_options import HERE, HomeOption, idle, opened
from fedse.errors import ConfigError
from fedse.plugins import SEALED, load_plugin, plugin_names
from fedse.store.buffer_key import IN_ENVIRONMENT, encrypt_buffer, key_path, rotate_key
from fedse.store.files import write_durably


def encrypt(
    *,
    home: HomeOption = HERE,
    key: Annotated[
        str, Parameter(help="The new key's file; best on another disk, never in a backup of HOME.")
    ] = "",
    rotate: Annotated[bool, Parameter(help="Replace the key with a new one.")] = False,
) -> None:
    """Encrypt the site's episodes on its disk, or replace the key they are encrypted with.

    So are the records of an agent in service, which must be stopped meanwhile. The key is made if
    there is none, and site.toml names it. Without the key nobody can read the episodes, so keep a
    copy of it. Adapters are not encrypted.

    Example: fedse privacy encrypt --key /mnt/keys/site.key
    """
    site = opened(home)
    from fedse.federation.home import SITE

    named = site.config.storage.key
    setting = _chosen(named, key, rotate=rotate, home=home)
    path, buffer = key_path(site.path, setting), site.path / "buffer.db"
    with idle(home, "privacy encrypt"):
        if not named:
            _name_key(site.path / SITE, setting)
        beside = [f for name in plugin_names(SEALED) for f in load_plugin(SEALED, name)(site.path)]
        changed = (rotate_key if rotate else encrypt_buffer)(buffer, path, beside=beside)
    print(f"key      {path}, readable by its owner only; without it the episodes are lost")
    print(f"written  {counted(changed, 'record')} again; the earlier bytes are overwritten")
    print("covers   what agents saw and said, names of tasks and persons; not adapters, not counts")


def _chosen(named: str, key: str, *, rotate: bool, home: Path) -> str:
    """The site's current or new `storage.key`; a request that contradicts it is refused."""
    if (named or key).startswith(IN_ENVIRONMENT):
        raise ConfigError(
            "this command does not create or replace a key in an environment variable",
            hint="encrypt with a file first, then put its 64 digits into the variable",
        )
    fits = key in ("", named) if named else bool(key) and not rotate
    if not fits:
        raise ConfigError(
            f"this site {'has the key ' + named if named else 'has no key yet'}",
            hint=f"fedse privacy encrypt {'--rotate' if named else '--key FILE'} --home {home}",
        )
    return named or key


def _name_key(file: Path, setting: str) -> None:
    """The site's own file names the key; the owner's comments are kept."""
    document = tomlkit.parse(file.read_text(encoding="utf-8"))
    document.setdefault("storage", tomlkit.table())["key"] = setting
    write_durably(file, tomlkit.dumps(document).encode())
