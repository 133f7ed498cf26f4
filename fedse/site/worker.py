"""The resident worker of a site: owns model, buffer and environment, answers over a local socket.

It serves one request at a time and outlives every bad one. What went wrong is written in full to
the site's own log; the caller gets a number only, because what it receives may leave the site.
A request that was answered before is answered from the outbox, so asking twice is safe.
"""

import errno
import json
import logging
import os
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Protocol

from fedse.config.file import load_config, with_own_settings
from fedse.config.schema import Config
from fedse.errors import ConfigError, FedSEError, MachineError, WireError, boundary
from fedse.events import Fact
from fedse.faults import Fault
from fedse.method.site import Site
from fedse.protocol import UNNAMED, Request, SiteReply
from fedse.site import socket_client
from fedse.site.gate import handle_request
from fedse.site.listening import SocketAddress, hung_up, listen
from fedse.site.open import open_site
from fedse.site.socket_client import MAX_JSON_BYTES, bound_waiting
from fedse.types import ClientStats

# Why accepting a connection fails without the listener being closed.
PASSING = {errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

HOME_HELP = (
    "the client's folder: its buffer and the log; with several clients, HOME/CLIENT for each"
)

log = logging.getLogger("fedse.site")

OpenSite = Callable[[str], Site]


class ServedSites:
    """The clients this worker serves, each opened at its first request."""

    def __init__(
        self, config: Config, clients: Sequence[str], open_one: OpenSite, policy: Path | None = None
    ) -> None:
        self.config, self.clients, self.policy = config, tuple(clients), policy
        self._open_one = open_one
        self._opened: dict[str, Site] = {}
        names = sorted(client.name for client in config.clients)
        unknown = sorted(set(clients) - set(names))
        if unknown or not clients:
            raise ConfigError(
                f"client {', '.join(unknown) or '(none)'} is not in this experiment; "
                f"its clients are {', '.join(names)}",
                hint="--client NAME, one of those",
            )
        self.place = {name: index for index, name in enumerate(names)}

    def client_at(self, place: int | None) -> str:
        """The client a request is for; only a worker of several clients needs `place`."""
        if place is None and len(self.clients) == 1:
            return self.clients[0]
        for client in self.clients:
            if self.place[client] == place:
                return client
        raise WireError(f"asked for client {place}, expected one of {', '.join(self.clients)}")

    def site(self, client: str) -> Site:
        if client not in self._opened:
            self._opened[client] = self._open_one(client)
        return self._opened[client]

    def close(self) -> None:
        for site in self._opened.values():
            site.buffer.close()


class ByteConnection(Protocol):
    """The side of a connection that is used here: bytes in, bytes out."""

    def send_bytes(self, buf: bytes) -> None: ...
    def recv_bytes(self, maxlength: int | None = None) -> bytes: ...


def serve_forever(listener: Listener, sites: ServedSites) -> None:
    """Every connection is answered, one after another, until the listener is closed."""
    while True:
        try:
            connection = listener.accept()
        except OSError as error:
            if error.errno not in PASSING:
                return
            log.warning("a connection broke before it began: %s", error)
            time.sleep(1)
            continue
        with connection:
            try:
                bound_waiting(connection, socket_client.FRAME_SECONDS)
                exchange(connection, sites, gone=partial(hung_up, connection))
            except Exception:
                # The caller is gone; a finished answer waits in the outbox.
                log.exception("a connection broke")


def exchange(
    connection: ByteConnection, sites: ServedSites, *, gone: Callable[[], bool] = lambda: False
) -> None:
    """One request was read and one reply was sent, whatever the request was.

    Nothing is done if the caller is gone before the work begins: it can ask again.
    """
    reply, client = SiteReply(ClientStats()), UNNAMED
    try:
        frame = connection.recv_bytes(MAX_JSON_BYTES)
        adapter = connection.recv_bytes(spec_bytes(sites))
        name, request = parse_request(frame, sites)
        client = sites.place[name]
        if gone():
            log.warning("dropped: the caller for round %d has hung up", request.round)
            return
        reply = handle_request(
            request, adapter, sites.site(name), sites.config, policy=sites.policy, emit=_note
        )
    except FedSEError as error:
        log.error("refused: %s (%s)", error, error.hint, exc_info=True)
        reply = SiteReply(ClientStats(), fault=Fault(error.exit_code))
    except (OSError, EOFError) as error:
        log.error("refused: a frame was too long or did not arrive: %s", error)
        reply = SiteReply(ClientStats(), fault=Fault.REQUEST)
    except Exception:
        log.exception("failed in an unforeseen way")
        reply = SiteReply(ClientStats(), fault=Fault.UNFORESEEN)
    numbers = {"client": client, "fault": reply.fault, "stats": reply.stats.model_dump(mode="json")}
    connection.send_bytes(json.dumps(numbers).encode())
    connection.send_bytes(reply.adapter or b"")


def parse_request(frame: bytes, sites: ServedSites) -> tuple[str, Request]:
    """The client and its request; anything but exactly the agreed form is refused."""
    with boundary(WireError, "request"):
        envelope = json.loads(frame)
        if not isinstance(envelope, dict) or set(envelope) != {"client", "request"}:
            raise WireError("request: expected the keys client and request")
        place = envelope["client"]
        if place is not None and type(place) is not int:
            raise WireError("request: client must be a number or null")
        request = Request.model_validate(envelope["request"], strict=True)
    return sites.client_at(place), request


def spec_bytes(sites: ServedSites) -> int:
    """The size every adapter of this experiment has; a longer frame is not read."""
    return sites.site(sites.clients[0]).spec.nbytes


def _note(event: str, /, **facts: Fact) -> None:
    log.info("%s", json.dumps({"event": event, **facts}))


def run_worker(
    config: Config,
    clients: Sequence[str],
    address: SocketAddress,
    home: Path,
    policy: Path | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT; the first site is open before the socket exists."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    _log_to(home)

    def open_one(name: str) -> Site:
        own = home if len(clients) == 1 else home / name
        return open_site(config, name, own, clock=time.time)

    sites = ServedSites(config, clients, open_one, policy)
    try:
        sites.site(sites.clients[0])
        with listen(address) as listener:
            log.info("ready: %s at %s", ", ".join(clients), address.path)
            print(f"ready {address.path}", flush=True)
            serve_forever(listener, sites)
    finally:
        sites.close()


def _log_to(home: Path) -> None:
    """The log may quote what an agent saw, so only the owner of the site's folder can read it."""
    with boundary(MachineError, f"log in {home}"):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = home / "worker.log"
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
        handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def _arguments(argv: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser("python -m fedse.site.worker", description=__doc__)
    parser.add_argument("config", type=Path, help="the experiment, as this site agreed to it")
    parser.add_argument(
        "--client", action="append", required=True, help="a client to serve; may be repeated"
    )
    parser.add_argument("--socket", type=Path, required=True, help="where to listen")
    parser.add_argument(
        "--socket-group", default="", help="a group of users who may connect, besides this user"
    )
    parser.add_argument("--home", type=Path, required=True, help=HOME_HELP)
    parser.add_argument("--policy", type=Path, help="the site's own rules, read at every request")
    parser.add_argument(
        "--own-settings", type=Path, help="a TOML file with the site's own [engine] and [trainer]"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a worker from the command line; the exit code is the error's."""
    given = _arguments(argv)
    try:
        address = SocketAddress(given.socket, given.socket_group)
        config = load_config(given.config)
        if given.own_settings:
            config = with_own_settings(config, given.own_settings)
        run_worker(config, given.client, address, given.home, given.policy)
    except FedSEError as error:
        hint = f"\n  next: {error.hint}" if error.hint else ""
        print(f"error: {error}{hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
