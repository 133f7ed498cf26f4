"""Python finds this file first when its folder is on the path: no Internet address is spoken to.

For a machine that cannot make a network namespace. Names are not resolved, nothing is sent, and
nobody is listened to; sockets of this machine's file system are let through.
"""

import sys

SPEAKS = {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"}
ASKS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}


def refuse(event: str, args: tuple[object, ...]) -> None:
    """An Internet address is a tuple, the name of a local socket is text or bytes."""
    if event in ASKS or (event in SPEAKS and isinstance(args[1], tuple)):
        raise OSError(101, f"{event}: there is no network here")


sys.addaudithook(refuse)
