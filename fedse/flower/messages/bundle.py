"""The app bundle Flower ships to every site: names of what to run, and no code of ours.

Flower puts the bundle before everything else on a site's module path. A bundle that held the
package would run the server's version of it at the site, without the files a bundle cannot hold
(weights, word lists). This one only imports, so a site runs what the site installed, and the
bundle cannot carry a run, a config or a buffer whatever folder it is submitted from. All releases
with one protocol send the same bundle.
"""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from fedse._version import PROTOCOL
from fedse.errors import StoreError, WireError, boundary

APP = "fedse_app"
# What we send has some files of a few lines, and the list of them that Flower adds.
MAX_FILES, MAX_BYTES = 32, 1 << 18

_PROJECT = f"""\
[project]
name = "fed-se"
version = "{PROTOCOL}.0.0"
description = "Fed-SE on Flower: starts what each site has installed"
license = "Apache-2.0"
dependencies = ["flwr==1.41.0"]

[tool.flwr.app]
publisher = "fedse"
fab-include = ["{APP}/*.py"]

[tool.flwr.app.components]
serverapp = "{APP}.server:app"
clientapp = "{APP}.client:app"

[tool.flwr.app.config]
run-dir = ""
sites = ""
join-seconds = 120.0
"""

# `flwr run` looks for an assignment to `app`; an imported name does not count.
_FILES = {
    "pyproject.toml": _PROJECT,
    f"{APP}/__init__.py": "",
    f"{APP}/client.py": "from fedse.flower import client_app\n\napp = client_app.app\n",
    f"{APP}/server.py": "from fedse.flower import server_app\n\napp = server_app.app\n",
}


def write_app(folder: Path) -> Path:
    """`folder` is a Flower project that `flwr run` and `flwr build` take."""
    return write_project(folder, _FILES)


def write_project(folder: Path, files: Mapping[str, str]) -> Path:
    """`folder` holds these files, each under its own name."""
    with boundary(StoreError, f"write app to {folder}"):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def own_digest() -> str:
    """Of the bundle this installation would send, and so the only one it needs to accept."""
    from flwr.cli.build import build_fab_from_disk

    with TemporaryDirectory(prefix="fedse-") as folder:
        return contents_digest(build_fab_from_disk(write_app(Path(folder))))


def contents_digest(bundle: bytes) -> str:
    """sha256 over the names and contents of the files in a bundle, however they are compressed.

    No more is unpacked than a bundle of ours has: what is larger is refused before.
    """
    with boundary(WireError, "app bundle"), zipfile.ZipFile(BytesIO(bundle)) as archive:
        # A file that is in it twice has two lines, so it is not the bundle that has it once.
        entries = archive.infolist()
        _require_small(entries)
        lines = [f"{entry.filename} {_file_digest(archive, entry)}" for entry in entries]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _require_small(entries: Sequence[zipfile.ZipInfo]) -> None:
    if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > MAX_BYTES:
        raise WireError(f"app bundle of more than {MAX_FILES} files or {MAX_BYTES} bytes")
    for entry in entries:
        # Of the other methods Python unpacks all at once, whatever it is asked for.
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise WireError("app bundle with an unusual compression")
        if "\n" in entry.filename:
            raise WireError("app bundle with a line break in a name")


def _file_digest(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    """A file that is longer than its entry says is not unpacked beyond that."""
    with archive.open(entry) as file:
        return hashlib.sha256(file.read(entry.file_size + 1)).hexdigest()
