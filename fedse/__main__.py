"""The `fedse` command, also as `python -m fedse`."""

import os
import signal
import sys

from fedse._version import __version__


def end_on_sigterm() -> None:
    """A service manager's SIGTERM ends a command as Ctrl-C does, with all that it has started."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def main() -> None:
    """Leaves with the exit code of the command; `--version` is answered before anything loads."""
    if sys.argv[1:] == ["--version"]:
        print(f"fedse {__version__}")
        return
    # OpenBLAS reads it when numpy loads: idle threads sleep after 2^4 cycles. By default they spin
    # for 2^26, about 20 ms, and double the CPU time of a merge. No result depends on it.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    from fedse.cli.app import start

    end_on_sigterm()
    sys.exit(start(sys.argv[1:]))


if __name__ == "__main__":
    main()
