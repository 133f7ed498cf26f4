"""The keys of applications: each has one of its own, and only its SHA-256 is kept."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from fedse.errors import StoreError, boundary
from fedse.store.files import write_durably

FILE = "applications.json"
LOCAL = "local"
"""Who asks where no application has a key yet."""


def read_keys(folder: Path) -> dict[str, str]:
    """The SHA-256 of each key -> the application that has it."""
    file = folder / FILE
    if not file.exists():
        return {}
    with boundary(StoreError, f"{file}", hint="put it back from a backup, or remove it"):
        kept: dict[str, str] = json.loads(file.read_text())
    return {digest: application for application, digest in kept.items()}


def add_key(folder: Path, application: str, *, drawn: str = "") -> str:
    """The application's new key, which is shown once; an earlier one is no longer valid."""
    key = drawn or f"fse-{secrets.token_urlsafe(24)}"
    kept = {name: digest for digest, name in read_keys(folder).items()}
    kept[application] = _digest(key)
    write_durably(folder / FILE, (json.dumps(kept, indent=1) + "\n").encode())
    return key


def application_of(header: str, keys: Mapping[str, str]) -> str | None:
    """Who asks with this Authorization header; None = nobody that is known.

    Without any key everybody may ask: the gateway then listens on loopback only.
    """
    if not keys:
        return LOCAL
    return keys.get(_digest(header.removeprefix("Bearer ").strip()))


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
