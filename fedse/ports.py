"""Is a port free, who has it if not, and which ones can be taken?"""

import errno
import socket
from contextlib import suppress
from itertools import islice

from fedse.errors import MachineError

PROXY_PORT, LINK_PORT = 8443, 8000
"""Where a federation's nginx and its SuperLink listen unless told otherwise."""
# Below those that kernels give out, also for outgoing connections: nobody gets one by chance.
PORTS = range(20_000, 30_000)


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


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody uses; no caller gets them while this process lives.

    The UDP port of the same number is a mark for the others. It stays with this process to its end
    and is in the way of no server, which uses TCP.
    """
    ports = list(islice(filter(_take_port, PORTS), count))
    if len(ports) < count:
        raise MachineError(
            f"no {count} ports are free from {PORTS.start} to {PORTS.stop - 1}", hint="ss -ltnu"
        )
    return ports


def _take_port(port: int) -> bool:
    """Whether the port was free and is marked as ours from here on."""
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind(("127.0.0.1", port))
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        mark.close()
        return False
    mark.detach()
    return True
