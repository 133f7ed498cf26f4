"""The `fedse` command, also as `python -m fedse`."""

import sys

from fedse._version import __version__


def main() -> None:
    """Leaves with the exit code of the command; `--version` is answered before anything loads."""
    if sys.argv[1:] == ["--version"]:
        print(f"fedse {__version__}")
        return
    from fedse.cli.app import start

    sys.exit(start(sys.argv[1:]))


if __name__ == "__main__":
    main()
