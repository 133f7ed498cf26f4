"""A SuperNode gives its work to processes of its own user only.

Flower's SuperNode serves its tasks at a port, where every user of the machine can take them: it
asks for nothing. Here it serves them at a Unix socket in a folder of its user, and the SuperExec
and the app, which are ours to start, ask there. The token of a task, which every user could read
in the list of processes, goes through a pipe.
"""

import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fedse.flower.patches.put_off import COMMANDS, put_off_package
from fedse.flower.patches.replace import replace

SERVE = "flwr.supernode.cli.flower_supernode:_start_supernode_http_api"
CLIENT = "flwr.supercore.protobuf.client:ProtobufClient"
EXECUTOR = "flwr.supercore.superexec.executor.subprocess_executor"
TOKEN, BY_PIPE = "--token", "--token-stdin"


def serve_at(socket: Path) -> None:
    """From now on this process serves HTTP at `socket`, and at no port."""
    replace("uvicorn:Config", lambda config: partial(config, uds=str(socket)), SERVE)


def ask_at(socket: Path) -> None:
    """From now on Flower's clients in this process ask at `socket`, whatever address they have."""
    begin = f"{CLIENT}.__init__"
    replace(begin, lambda begin: asking_at(begin, socket), f"{CLIENT}.from_server_address")


def asking_at(begin: Callable[..., None], socket: Path) -> Callable[..., None]:
    """`begin`, after which the client has a connection to the socket in place of its own."""
    import httpx

    def begin_there(client: Any, *args: Any, **options: Any) -> None:
        begin(client, *args, **options)
        plain = client._client
        there = httpx.HTTPTransport(uds=str(socket))
        # No proxy of the environment comes between.
        client._client = httpx.Client(transport=there, timeout=plain.timeout, trust_env=False)
        plain.close()

    return begin_there


def run_superexec(socket: str) -> None:
    """Flower's flower-superexec, asking at `socket`; takes the same arguments."""
    put_off_package(COMMANDS)
    ask_at(Path(socket))
    launch = f"{EXECUTOR}:SubprocessExecutor.launch"
    replace(f"{EXECUTOR}:subprocess", _with_piped_token, launch)
    import_module("flwr.supercore.cli.flower_superexec").flower_superexec()


def _with_piped_token(plain: Any) -> SimpleNamespace:
    return SimpleNamespace(Popen=start_with_piped_token, DEVNULL=plain.DEVNULL)


def start_with_piped_token(line: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    """The process runs and has its token; the list of processes does not show it."""
    words = list(line)
    place = words.index(TOKEN)
    token = words[place + 1]
    words[place : place + 2] = [BY_PIPE]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, **options)
    assert child.stdin
    with suppress(BrokenPipeError), child.stdin as pipe:  # it may have ended already
        pipe.write(f"{token}\n".encode())
    return child
