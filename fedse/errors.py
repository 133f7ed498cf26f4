"""The error tree, the boundary around foreign code, the check for packages, and the exit codes.

FedSEError                1
├── ConfigError           2   a setting is wrong; nothing was started
├── MachineError          3   something this machine lacks (a package, a file, memory)
├── EnvError              4   an environment broke its contract, or too many episodes broke
├── AdapterRejected       5   an adapter that arrived is not what the spec promises
├── WireError             6   a message or a site's worker did not answer as agreed
├── StoreError            7   a buffer or a run directory cannot be read or written
├── TrainError            8   training went wrong (non-finite loss, nothing to train)
└── RunError             10   a run cannot go on (too few clients, an engine that gives no answer)

Interrupted (a KeyboardInterrupt) has 130.

A broken episode or a broken client is data; a broken invariant stops with one of these.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


class FedSEError(Exception):
    """Base of every error this package raises on purpose: what happened, and what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(FedSEError):
    exit_code = 2


class MachineError(FedSEError):
    exit_code = 3


class EnvError(FedSEError):
    exit_code = 4


class AdapterRejected(FedSEError):
    exit_code = 5


class WireError(FedSEError):
    exit_code = 6


class StoreError(FedSEError):
    exit_code = 7


class TrainError(FedSEError):
    exit_code = 8


class RunError(FedSEError):
    exit_code = 10


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run: what was committed is kept, and the hint says how to continue."""

    exit_code = 130

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@contextmanager
def boundary(kind: type[FedSEError], what: str, *, hint: str = "") -> Iterator[None]:
    """Whatever foreign code raises inside leaves as `kind`, naming `what`; our own errors pass."""
    try:
        yield
    except FedSEError:
        raise
    except Exception as error:
        raise kind(f"{what}: {_cause(error, what)}", hint=hint) from error


def _cause(error: Exception, what: str) -> str:
    """What the system says, without its number; of any other error its type and text."""
    if not isinstance(error, OSError) or not error.strerror:
        return f"{type(error).__name__}: {error}"
    name = str(error.filename or "")
    # A file written beside its target has a name that says nothing.
    told = name in what or (os.path.dirname(name) or name) in what
    return error.strerror if told else f"{error.strerror}: {name!r}"


INSTALL_TORCH = (
    "uv pip install --torch-backend cpu 'fed-se[hf]', or without uv: "
    "pip install --extra-index-url https://download.pytorch.org/whl/cpu 'fed-se[hf]'"
)
"""Plain pip would bring a CUDA build of several gigabytes on Linux."""


def is_installed(package: str) -> bool:
    """Whether a top-level package can be imported; it is not imported yet."""
    return find_spec(package) is not None


def require_packages(what: str, *packages: str, extra: str) -> None:
    """All `packages` are installed, or the error names those that are not and their extra."""
    lacking = [package for package in packages if not is_installed(package)]
    if lacking:
        raise MachineError(
            f"{what} needs {', '.join(lacking)}, not installed here (part of fed-se[{extra}])",
            hint=f"pip install 'fed-se[{extra}]'",
        )
