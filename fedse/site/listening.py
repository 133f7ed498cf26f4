"""The worker's end of its local socket: who can reach it, and whether a peer is still connected."""

import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from shutil import chown
from typing import Any, NamedTuple

from fedse.errors import ConfigError, MachineError, boundary
from fedse.processes.socket_path import require_socket_path

# Why accepting a connection fails without the listener being closed.
PASSING = {errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
# Bytes before a frame that hold its length (multiprocessing.connection, up to 2 GB).
FRAME_HEAD = 4


class SocketAddress(NamedTuple):
    """Where a worker listens, and which group of users may connect besides its own user."""

    path: Path
    group: str = ""


def listen(address: SocketAddress) -> Listener:
    """A socket in a folder of its own that only this user, or one group, can reach."""
    path, group = address
    require_socket_path(path)
    with boundary(MachineError, f"socket {path}"):
        _require_own_folder(path.parent, group)
        _remove_dead_socket(path)
        # The umask closes the moment between bind and chmod.
        before = os.umask(0o177)
        try:
            listener = Listener(str(path), family="AF_UNIX", backlog=64)
        finally:
            os.umask(before)
        if group:
            chown(path, group=group)
            path.chmod(0o660)
    return listener


def _require_own_folder(folder: Path, group: str) -> None:
    """The folder is made for this user alone, or already is; one that others use is refused."""
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700)
        if group:
            chown(folder, group=group)
            folder.chmod(0o710)
    mode = folder.stat().st_mode & 0o777
    if mode & (0o067 if group else 0o077):
        raise ConfigError(
            f"socket folder {folder} has mode {mode:o}, expected {'710' if group else '700'}",
            hint="name a folder that does not exist yet, or chmod it",
        )


def _remove_dead_socket(path: Path) -> None:
    if not path.exists():
        return
    try:
        Client(str(path), family="AF_UNIX").close()
    except OSError:
        path.unlink()
        return
    raise MachineError(f"a worker already listens at {path}", hint=f"lsof {path}")


def accepted(listener: Listener, log: logging.Logger) -> "Iterator[Connection[Any, Any]]":
    """Every connection, until the listener is closed."""
    while True:
        try:
            yield listener.accept()
        except OSError as error:
            if error.errno not in PASSING:
                return
            log.warning("a connection broke before it began: %s", error)
            time.sleep(1)


def serve_each(
    connections: "Iterable[Connection[Any, Any]]",
    exchange: "Callable[[Connection[Any, Any]], None]",
    log: logging.Logger,
) -> None:
    """Every connection had its exchange, one after another, and is closed."""
    for connection in connections:
        with connection:
            try:
                exchange(connection)
            except Exception:
                # The caller is gone; a finished answer waits in the outbox.
                log.exception("a connection broke")


def hung_up(connection: "Connection[Any, Any]") -> bool:
    """Whether the peer has closed its end, by itself or because it died."""
    with _socket_of(connection) as end:
        try:
            return end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def first_frame(connection: "Connection[Any, Any]", most: int) -> bytes:
    """The first frame that has arrived and is read by nobody yet; empty = it is not here whole."""
    with _socket_of(connection) as end:
        try:
            here = end.recv(FRAME_HEAD + most, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return b""
    length = int.from_bytes(here[:FRAME_HEAD], "big")
    frame = here[FRAME_HEAD:][:length]
    return frame if len(frame) == length else b""


def _socket_of(connection: "Connection[Any, Any]") -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))
