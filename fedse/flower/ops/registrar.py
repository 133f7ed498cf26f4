"""Registers nodes at a SuperLink, and unregisters them: one program for any number of them.

`flwr supernode register` starts a program of its own for every node, which takes a second of a
core and 0.1 GB.

    python -m fedse.flower.ops.registrar CONNECTION --leave NUMBER --come NAME PUBLIC_KEY
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fedse.flower.patches.replace import of_flower

CLI, CONTROL = "flwr.cli", "flwr.proto.control_pb2"


def registrar_command(
    connection: str, *, leave: Iterable[int] = (), come: Mapping[str, Path]
) -> list[str]:
    """The command after which these nodes are gone, and these have come under their names."""
    going = [word for number in leave for word in ("--leave", str(number))]
    coming = [word for name, key in come.items() for word in ("--come", name, str(key))]
    return [sys.executable, "-P", "-m", "fedse.flower.ops.registrar", connection, *going, *coming]


def main(argv: Sequence[str]) -> None:
    """Every node that is named has left or has come; else the SuperLink's refusal is raised."""
    parser = ArgumentParser("python -m fedse.flower.ops.registrar", allow_abbrev=False)
    parser.add_argument("connection")
    parser.add_argument("--leave", action="append", default=[], type=int)
    parser.add_argument("--come", action="append", default=[], nargs=2)
    given = parser.parse_args(argv)
    where = of_flower(f"{CLI}.flower_config:read_superlink_connection")(given.connection)
    link = of_flower(f"{CLI}.utils:init_http_client_from_connection")(where)
    leave = of_flower(f"{CONTROL}:UnregisterNodeRequest")
    come = of_flower(f"{CONTROL}:RegisterNodeRequest")
    public_key = of_flower(f"{CLI}.supernode.register:try_load_public_key")
    try:
        for number in given.leave:
            link.UnregisterNode(request=leave(node_id=number))
        for name, key in given.come:
            if not link.RegisterNode(request=come(public_key=public_key(Path(key)), name=name)):
                sys.exit(f"{name} could not be registered")
    finally:
        link.close()


if __name__ == "__main__":
    main(sys.argv[1:])
