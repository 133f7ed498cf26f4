"""The error tree, the boundary around foreign code, the check for packages, and the exit codes.

FedSEError                1
├── ConfigError           2   a setting is wrong; nothing was started
├── MachineError          3   something this machine lacks (a package, a file, memory)
├── EnvError              4   an environment broke its contract, or too many episodes broke
├── AdapterRejected       5   an adapter that arrived is not what the spec promises
├── WireError             6   a message or a site's worker did not follow the protocol
├── StoreError            7   a buffer or a run directory cannot be read or written
├── TrainError            8   training failed (non-finite loss, nothing to train)
└── RunError             10   a run cannot continue (too few clients, no answer from an engine)

Interrupted (a KeyboardInterrupt) has 130.

A broken episode or a broken client is data; a broken invariant stops with one of these.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from shlex import quote


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
    missing: tuple[tuple[str, ...], ...] = ()
    """Extra, what needs it, and the packages that are missing; empty if they are not the cause."""


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
    """What the system reports, without its number; for any other error, its type and text."""
    if not isinstance(error, OSError) or not error.strerror:
        return f"{type(error).__name__}: {error}"
    name = str(error.filename or "")
    # A file written beside its target has a name that says nothing.
    told = name in what or (os.path.dirname(name) or name) in what
    return error.strerror if told else f"{error.strerror}: {name!r}"


TORCH = "hf"
"""The extra that brings torch."""


BESIDE = "fed-se-"
"""Begins the name of each package of this project beside fed-se itself."""


def install_line(*extras: str) -> str:
    """The command that installs these extras or packages; with torch, its build without CUDA.

    Plain pip would bring a CUDA build of several gigabytes on Linux.
    """
    own = ",".join(extra for extra in extras if not extra.startswith(BESIDE))
    packages = [f"'fed-se[{own}]'"] if own else []
    packages += [quote(extra) for extra in extras if extra.startswith(BESIDE)]
    named = " ".join(packages)
    if TORCH not in extras:
        return f"pip install {named}"
    index = "https://download.pytorch.org/whl/cpu"
    return (
        f"uv pip install --torch-backend cpu {named}, or without uv: "
        f"pip install --extra-index-url {index} {named}"
    )


INSTALL_TORCH = install_line(TORCH)


def is_installed(package: str) -> bool:
    """Whether a top-level package can be imported; it is not imported yet."""
    return find_spec(package) is not None


def require_packages(what: str, *packages: str, extra: str) -> None:
    """All `packages` are installed, or the error names those that are not and what brings them.

    `extra`: an extra of fed-se, or another package of this project.
    """
    lacking = [package for package in packages if not is_installed(package)]
    if lacking:
        raise _lacks([(extra, what, *lacking)])


def require_all(*checks: Callable[[], object]) -> None:
    """Every check passes, or one error names all the packages they lack and one command.

    Any other error leaves at once: installing packages would not mend it.
    """
    missing: dict[tuple[str, ...], None] = {}
    for check in checks:
        try:
            check()
        except MachineError as error:
            if not error.missing:
                raise
            missing |= dict.fromkeys(error.missing)
    if missing:
        raise _lacks([*missing])


def _bringing(extra: str) -> str:
    return extra if extra.startswith(BESIDE) else f"fed-se[{extra}]"


def _lacks(missing: Sequence[tuple[str, ...]]) -> MachineError:
    texts = [
        f"{what} needs {', '.join(packages)} (part of {_bringing(extra)})"
        for extra, what, *packages in missing
    ]
    error = MachineError(
        f"not installed here: {'; '.join(texts)}",
        hint=install_line(*dict.fromkeys(extra for extra, *_ in missing)),
    )
    error.missing = tuple(missing)
    return error
