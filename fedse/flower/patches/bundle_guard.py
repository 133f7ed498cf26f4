"""Which app bundle may be unpacked at a site: the one it agreed to, and no other.

Flower sends the bundle from the server and runs what is in it. Its own check
(`--trusted-entities`) only knows bundles of Flower's hub. Here a program named flwr-clientapp
comes before Flower's on a site's path: it compares the contents with the digest the site agreed
to when it joined, which is that of the bundle the site's own fedse would build, and then goes on
as Flower's does. A changed bundle fails before a byte of it is unpacked. The server also chooses
which of Flower's programs a SuperNode starts; all others (flwr-agentapp, ...) refuse here.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedse.errors import WireError
from fedse.flower.messages.bundle import contents_digest
from fedse.flower.patches.replace import replace
from fedse.flower.patches.runtime_socket import ask_at, run_superexec

RUN = "flwr.supernode.runtime.run_clientapp:run_clientapp"
UNPACK = "flwr.supernode.runtime.run_clientapp:install_from_fab"
PULL = "flwr.supernode.start_client_internal:_pull_and_store_message"
READ = "flwr.supernode.start_client_internal:get_fused_config_from_fab"
REFUSED = "the app bundle is not the one this site agreed to"
_REFUSES = """\
#!/bin/sh
echo "{name} is not started at this site" >&2
exit 1
"""


def main(agreed: str, socket: str = "") -> None:
    """Flower's flwr-clientapp with its unpacking guarded; takes the same arguments.

    It asks for its task at `socket`, which is the SuperNode's, or else at the address given. The
    module of Flower's own program would load the whole SuperNode, above all its databases: a third
    of the CPU time of a task.
    """
    from flwr.common.args import add_args_flwr_app_common, try_obtain_flwr_app_token
    from flwr.supercore.tls import validate_and_resolve_root_certificates
    from flwr.supernode.runtime.run_clientapp import run_clientapp

    if socket:
        ask_at(Path(socket))
    replace(UNPACK, lambda unpack: guarded(unpack, agreed), RUN)
    parser = ArgumentParser("flwr-clientapp", allow_abbrev=False)
    parser.add_argument("--runtime-api-address", required=True)
    add_args_flwr_app_common(parser, include_token_stdin=True)
    given = parser.parse_args()
    trusted = validate_and_resolve_root_certificates(given.root_certificates, given.insecure)
    run_clientapp(
        given.runtime_api_address,
        try_obtain_flwr_app_token(given),
        given.insecure,
        trusted,
        parent_pid=given.parent_pid,
        runtime_dependency_install=given.runtime_dependency_install,
    )


def guarded(unpack: Callable[..., Any], agreed: str) -> Callable[..., Any]:
    """`unpack` for the agreed bundle, an error with one fixed text for every other."""

    def unpack_agreed(bundle: object, *args: Any, **options: Any) -> Any:
        if not isinstance(bundle, bytes) or _contents(bundle) != agreed:
            raise WireError(REFUSED)
        return unpack(bundle, *args, **options)

    return unpack_agreed


def guard_reading() -> None:
    """From now on this process reads no settings from a bundle larger than ours."""
    replace(READ, only_small, PULL)


def only_small(read: Callable[..., Any]) -> Callable[..., Any]:
    """`read`; of a bundle that is too large nothing: the app that is to unpack it refuses it."""

    def read_small(bundle: bytes, run: Any) -> Any:
        return read(bundle, run) if _contents(bundle) else {}

    return read_small


def _contents(bundle: bytes) -> str:
    try:
        return contents_digest(bundle)
    except WireError:
        return ""  # a bundle that cannot be read is never the agreed one


def write_launchers(folder: Path, agreed: str, socket: Path | None = None) -> Path:
    """`folder` holds every program Flower could start for a task; it belongs first on PATH.

    With a `socket` of the SuperNode also the SuperExec, which starts them; all then ask there.
    """
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND

    programs = dict.fromkeys(TASK_TYPE_TO_COMMAND.values(), "")
    programs["flwr-clientapp"] = _program(main, agreed, *([str(socket)] if socket else []))
    if socket:
        programs["flower-superexec"] = _program(run_superexec, str(socket))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in programs.items():
        (folder / name).write_text(text or _REFUSES.format(name=name))
        (folder / name).chmod(0o700)
    return folder


def _program(run: Callable[..., None], *arguments: str) -> str:
    words = ", ".join(map(repr, arguments))
    lines = ["#!" + sys.executable, f"from {run.__module__} import {run.__name__}", ""]
    return "\n".join([*lines, f"{run.__name__}({words})", ""])
