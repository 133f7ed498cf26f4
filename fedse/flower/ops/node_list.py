"""The nodes a SuperLink knows are the enrolled sites, each with the key that is on the list."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from fedse.federation.folder import Federation, write_nodes, write_public_key
from fedse.federation.keys import public_pem
from fedse.flower.ops.registrar import registrar_command
from fedse.flower.ops.superlink import CONNECTION, START_SECONDS
from fedse.processes.group import Processes
from fedse.store.lock import one_command

# For each word of the command, on a busy machine.
NODE_SECONDS = 0.1


class KnownNode(NamedTuple):
    """A node as a SuperLink knows it."""

    name: str
    key: bytes
    """PEM."""


class NodeChanges(NamedTuple):
    """What makes a list of nodes the list of enrolled sites."""

    unregister: dict[int, str]
    """Number and name of each node that has to go."""
    register: list[str]
    """The sites that have to come."""


def register_enrolled(federation: Federation, processes: Processes) -> None:
    """Each enrolled site is registered under its name and key; all others are unregistered.

    The SuperLink is asked who is registered: a list of our own could be wrong after a kill. Of two
    commands that change the list at once, the second waits for the first and finds its work done.
    """
    lock = federation.path / ".nodes.lock"
    with one_command(lock, seconds=2 * START_SECONDS, doing="registering sites"):
        _register_enrolled(federation, processes)


def _register_enrolled(federation: Federation, processes: Processes) -> None:
    members = federation.sites.members
    enrolled = {n: m.public_key for n, m in members.items() if m.state == "enrolled"}
    registered = _registered_nodes(federation)
    leave, come = node_changes(
        registered, {name: public_pem(key) for name, key in enrolled.items()}
    )
    if leave or come:
        # From the list: a kill may have left another key in the file.
        keys = {site: write_public_key(federation, site, enrolled[site]) for site in come}
        line = registrar_command(CONNECTION, leave=leave, come=keys)
        processes.succeed({"registrar": line}, seconds=START_SECONDS + NODE_SECONDS * len(line))
        registered = _registered_nodes(federation)
    write_nodes(federation, {node.name: number for number, node in registered.items()})


def node_changes(registered: Mapping[int, KnownNode], enrolled: Mapping[str, bytes]) -> NodeChanges:
    """A node stays if its site is enrolled with this very key."""
    stays = {n for n, node in registered.items() if enrolled.get(node.name) == node.key}
    leave = {n: node.name for n, node in sorted(registered.items()) if n not in stays}
    there = {registered[number].name for number in stays}
    return NodeChanges(leave, sorted(set(enrolled) - there))


def _registered_nodes(federation: Federation) -> dict[int, KnownNode]:
    """The registered nodes by number, from the SuperLink's database; no command lists them."""
    file = f"file:{federation.path / 'superlink.db'}?mode=ro"
    with closing(sqlite3.connect(file, uri=True, timeout=20)) as db:
        rows = db.execute(
            "SELECT node_id, name, public_key FROM node WHERE status != 'unregistered'"
        )
        # It keeps numbers with a sign.
        return {number % 2**64: KnownNode(name, bytes(key)) for number, name, key in rows}
