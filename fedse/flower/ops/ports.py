"""Whether a port is free, and which process has it."""

import errno
import socket

import psutil

from fedse.errors import MachineError

LISTENING = "LISTEN"


def require_free(host: str, port: int, *, what: str, hint: str) -> None:
    """`what` can listen at `port` of `host`; else the error says who has it, or what forbids it.

    An empty host is every address of this machine.
    """
    with socket.socket() as door:
        # As servers do: a closed connection of the last process must not block the port.
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((host, port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            cause = f"it is taken by {holder(port)}" if taken else error.strerror
            raise MachineError(f"{what} cannot use port {port}: {cause}", hint=hint) from error


def holder(port: int) -> str:
    """The process that listens at `port`, as far as this user may know."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.Error:
        return "another process"
    for connection in connections:
        local, pid = connection.laddr, connection.pid
        if connection.status == LISTENING and local and local.port == port and pid:
            try:
                return f"{psutil.Process(pid).name()} (process {pid})"
            except psutil.Error:
                break
    return "a process of another user"
