"""What the path of a Unix socket may be."""

import os
from pathlib import Path

from fedse.errors import ConfigError

# Linux: sockaddr_un.sun_path holds 108 bytes with its closing zero.
MAX_SOCKET_PATH = 107


def require_socket_path(path: Path) -> None:
    """A socket can be made at `path`; else an error."""
    if (size := len(os.fsencode(path))) > MAX_SOCKET_PATH:
        raise ConfigError(
            f"socket path {path} has {size} bytes, Linux allows {MAX_SOCKET_PATH}",
            hint="use a short path such as /run/fedse/NAME.sock",
        )
