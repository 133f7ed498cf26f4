"""The public keys of all members, in a file that its owner wrote: name -> Ed25519, raw, in hex.

A site compares it with the other members by another way than through the server, as by telephone:
whoever can replace a key in it can pass for that member.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedse.errors import ConfigError
from fedse.secure_sum.roster import Directory, Hex32, Name
from fedse.store.files import write_durably
from fedse.types import canonical_json

MEMBERS = "members.json"
OWN = "each site shows its own: fedse privacy keys"
_FORM: TypeAdapter[dict[str, str]] = TypeAdapter(dict[Name, Hex32])


def read_directory(folder: Path) -> Directory:
    """The directory in `folder`; without one there is no secure sum."""
    path = folder / MEMBERS
    hint = "fedse privacy keys with NAME=KEY of every site; at the coordinator with --dir FOLDER"
    try:
        return parse_directory(_FORM.validate_json(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"cannot read members {path}: {error.strerror}", hint=hint) from error
    except ValidationError:
        raise ConfigError(f"{path} is not a list of names and public keys", hint=hint) from None


def parse_directory(keys: Mapping[str, str]) -> Directory:
    """`keys` if each is a public key in hex and no two members have the same."""
    try:
        told = _FORM.validate_python(dict(keys))
    except ValidationError:
        raise ConfigError(
            "a member's key is not 32 bytes in hex",
            hint="each site shows its own: fedse privacy keys",
        ) from None
    if len(set(told.values())) < len(told):
        raise ConfigError("two members have the same key", hint=OWN)
    return told


def write_directory(folder: Path, directory: Mapping[str, str]) -> None:
    text = json.dumps(dict(sorted(directory.items())), indent=2) + "\n"
    write_durably(folder / MEMBERS, text.encode())


def directory_fingerprint(directory: Directory) -> str:
    """Equal at all sites that believe in the same keys; short enough to be read out."""
    return hashlib.sha256(canonical_json(dict(directory))).hexdigest()[:32]
