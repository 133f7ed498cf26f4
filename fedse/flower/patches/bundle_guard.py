"""Which app bundle may be unpacked at a site: the one it agreed to, and no other.

Flower sends the bundle from the server and runs what is in it. Its own check
(`--trusted-entities`) only knows bundles of Flower's hub. Here a program named flwr-clientapp
comes before Flower's on a site's path: it compares the contents with the digest the site agreed
to when it joined, which is that of the bundle the site's own fedse would build, and then goes on
as Flower's does. A changed bundle fails before a byte of it is unpacked. The server also chooses
which of Flower's programs a SuperNode starts; all others (flwr-agentapp, ...) refuse here.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from fedse.errors import WireError
from fedse.flower.messages.bundle import contents_digest
from fedse.flower.patches.replace import replace

RUNTIME = "flwr.supernode.runtime.run_clientapp"
UNPACK = "install_from_fab"
COMMANDS = "flwr.supernode.cli"
REFUSED = "the app bundle is not the one this site agreed to"
_REFUSES = """\
#!/bin/sh
echo "{name} is not started at this site" >&2
exit 1
"""


def main(agreed: str) -> None:
    """Flower's flwr-clientapp with its unpacking guarded; takes the same arguments."""
    replace(import_module(RUNTIME), UNPACK, lambda unpack: guarded(unpack, agreed))
    clientapp_module().flwr_clientapp()


def clientapp_module() -> Any:
    """Flower's module of the program, without the whole SuperNode that its package imports.

    Above all its databases: loading them is a third of the CPU time of a task, which has none.
    """
    package = ModuleType(COMMANDS)
    package.__path__ = [f"{folder}/cli" for folder in import_module("flwr.supernode").__path__]
    sys.modules.setdefault(COMMANDS, package)
    return import_module(f"{COMMANDS}.flwr_clientapp")


def guarded(unpack: Callable[..., Any], agreed: str) -> Callable[..., Any]:
    """`unpack` for the agreed bundle, an error with one fixed text for every other."""

    def unpack_agreed(bundle: object, *args: Any, **options: Any) -> Any:
        if not isinstance(bundle, bytes) or _contents(bundle) != agreed:
            raise WireError(REFUSED)
        return unpack(bundle, *args, **options)

    return unpack_agreed


def _contents(bundle: bytes) -> str:
    try:
        return contents_digest(bundle)
    except WireError:
        return ""  # a bundle that cannot be read is never the agreed one


def write_launchers(folder: Path, agreed: str) -> Path:
    """`folder` holds every program Flower could start for a task; it belongs first on PATH."""
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    guard = f"#!{sys.executable}\nfrom {__name__} import main\n\nmain({agreed!r})\n"
    for name in TASK_TYPE_TO_COMMAND.values():
        program = folder / name
        program.write_text(guard if name == "flwr-clientapp" else _REFUSES.format(name=name))
        program.chmod(0o700)
    return folder
