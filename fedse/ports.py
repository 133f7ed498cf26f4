"""Is a port free, and who has it if not?"""

import errno
import socket
from contextlib import suppress

PROXY_PORT, LINK_PORT = 8443, 8000
"""Where a federation's nginx and its SuperLink listen unless told otherwise."""


def why_not_free(host: str, port: int) -> str:
    """Why nobody can listen at `port` of `host` now; empty = somebody can.

    An empty host is every address of this machine.
    """
    with socket.socket() as door:
        # As servers do: a connection of the last one that is not forgotten yet is no hindrance.
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((host, port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            return f"it is taken by {_holder(port)}" if taken else error.strerror or str(error)
    return ""


def _holder(port: int) -> str:
    """Who listens at `port`, as far as this user may know."""
    with suppress(ImportError):
        import psutil  # comes with Flower, which a machine without federations need not have

        with suppress(psutil.Error):
            for found in psutil.net_connections("tcp"):
                listens = found.status == psutil.CONN_LISTEN and found.laddr.port == port
                if listens and found.pid:
                    return f"{psutil.Process(found.pid).name()} (process {found.pid})"
    return "another process"
