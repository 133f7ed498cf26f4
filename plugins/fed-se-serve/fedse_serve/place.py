"""What is put in service: a site's folder, a run, or an adapter that was exported.

The service keeps everything of its own in the folder `service` in there.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedse.adapters.base import base_path
from fedse.adapters.peft_folder import WEIGHTS, export_whole
from fedse.config.redaction import RedactSection
from fedse.config.roles import SHARED
from fedse.config.storage import StorageSection
from fedse.errors import ConfigError, StoreError, boundary
from fedse_serve.roles import block_folders
from fedse_serve.settings import ServiceSettings, read_settings, settings_file

SITE, RUN, FOLDER = "site.toml", "run.json", "service"
TEMPLATES = ("chat_template.jinja", "tokenizer_config.json")
"""Where a model's folder has its chat template; the first that is there counts."""


class Place(NamedTuple):
    """What is served, and what of its owner's settings the service follows."""

    folder: Path
    """The service's own."""
    settings: ServiceSettings
    base: Path
    """The folder of the base model."""
    redact: RedactSection
    storage: StorageSection
    home: Path
    """Relative files of the owner begin here."""
    newest: Callable[[], Path | None]
    """The folder of the newest adapter there; None = there is none yet."""
    roles: tuple[str, ...] = ()
    """Of the agent; empty = it has none."""

    @property
    def template(self) -> str:
        """Digest of the chat template."""
        found = [self.base / name for name in TEMPLATES if (self.base / name).is_file()]
        return hashlib.sha256(found[0].read_bytes()).hexdigest() if found else ""


def open_place(where: Path, environ: Mapping[str, str]) -> Place:
    """What is in the folder `where`."""
    if (where / SITE).is_file():
        return _site(where)
    if (where / RUN).is_file():
        return _run(where)
    if (where / WEIGHTS).is_file():
        return _adapter(where, environ)
    raise ConfigError(
        f"{where} has nothing to serve: no {SITE}, no {RUN} and no {WEIGHTS}",
        hint="name a site's folder, a run's folder, or what fedse export adapter has written",
    )


def _site(home: Path) -> Place:
    from fedse.federation.home import open_home
    from fedse.site.own_adapters import own_adapters

    config = open_home(home).config

    def newest() -> Path | None:
        kept = max(own_adapters(home), key=lambda one: (one.round, one.made), default=None)
        return kept.folder if kept else None

    base, settings = base_path(config.model.base), read_settings(home / SITE)
    own = (settings, base, config.redact, config.storage, home, newest, config.roles.names)
    return Place(home / FOLDER, *own)


def _run(path: Path) -> Place:
    from fedse.results.outcome import committed_round
    from fedse.store.run_folder import open_run, run_config

    config = run_config(path)

    def newest() -> Path | None:
        with closing(open_run(path)) as opened:
            adapter = opened.adapter(committed_round(opened, None))
        folder = path / FOLDER / "exported" / adapter.digest
        if not (folder / WEIGHTS).is_file():
            folder.parent.mkdir(parents=True, exist_ok=True)
            export_whole(adapter, folder)
        return folder

    base, settings = base_path(config.model.base), _own_settings(path)
    own = (settings, base, config.redact, config.storage, path, newest, config.roles.names)
    return Place(path / FOLDER, *own)


def _adapter(folder: Path, environ: Mapping[str, str]) -> Place:
    blocks = block_folders(folder)
    described = (blocks or [folder])[0] / "adapter_config.json"
    with boundary(StoreError, f"{described}"):
        facts = json.loads(described.read_text(encoding="utf-8"))
        base = base_path(str(facts["base_model_name_or_path"]), environ)
    return Place(
        folder / FOLDER,
        _own_settings(folder),
        base,
        RedactSection(secrets=True),
        StorageSection(),
        folder,
        lambda: folder,
        tuple(sorted(role for block in blocks for role in block.name.split(SHARED))),
    )


def _own_settings(folder: Path) -> ServiceSettings:
    """Of a service that belongs to no site: in a file of its own folder, if there is one."""
    file = settings_file(folder / FOLDER)
    return read_settings(file) if file.is_file() else ServiceSettings()
