"""How output is shown: live, plain or JSON; and settings that keep libraries quiet."""

import os
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Annotated, Literal, TextIO

from cyclopts import Parameter

Mode = Literal["live", "plain", "json"]

Json = Annotated[
    bool, Parameter(name="--json", help="JSON on stdout, for programs.", show_default=False)
]
Plain = Annotated[
    bool, Parameter(help="One line per event, no colours, no redrawing.", show_default=False)
]

OFFLINE = {"HF_HUB_OFFLINE": "1"}
# For libraries the run loads.
QUIET = {
    # A waiting thread that spins makes torch ten times slower where cores are shared.
    "OMP_WAIT_POLICY": "PASSIVE",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
NO_BARS = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}


def set_quiet(
    environ: MutableMapping[str, str], *, offline: bool = True, bars: bool = False
) -> None:
    """No library calls home or spins, and none draws a progress bar unless `bars`.

    What the user has set stays. With `offline` nothing is fetched from a hub: models are folders.
    """
    for name, value in (QUIET | (OFFLINE if offline else {}) | ({} if bars else NO_BARS)).items():
        environ.setdefault(name, value)


def print_aside(*lines: str) -> None:
    """The lines are on stderr; stdout is for results."""
    # A full disk or a closed terminal must not stop what is being watched.
    with suppress(OSError):
        print(*lines, sep="\n", end="\n" if lines else "", file=sys.stderr, flush=True)


def plain_wanted(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether `stream` is unfit for colours and redrawing, or the user wants neither."""
    dumb = environ.get("TERM") == "dumb" or bool(environ.get("NO_COLOR"))
    return dumb or not stream.isatty()


def mode_of(stream: TextIO, *, json: bool, plain: bool) -> Mode:
    """How progress is shown on `stream`."""
    if json:
        return "json"
    return "plain" if plain or plain_wanted(stream) else "live"
