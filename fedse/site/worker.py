"""The resident worker of a site: owns model, buffer and environment, answers over a local socket.

It serves one request at a time and outlives every bad one. What went wrong is written in full to
the site's own log; the caller gets a number only, because what it receives may leave the site.
A request that was answered before is answered from the outbox, so asking twice is safe.
"""

import json
import logging
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, Protocol

from fedse.adapters.base import spec_of
from fedse.config.file import load_config, with_own_settings
from fedse.config.schema import Config
from fedse.errors import FedSEError, WireError, boundary
from fedse.events import Fact
from fedse.faults import Fault
from fedse.ledger.record import note_erasures, require_answers
from fedse.method.site import Site
from fedse.processes.free_memory import give_back
from fedse.processes.pulse import Pulse
from fedse.protocol import KINDS, UNNAMED, Question, SiteReply, Sizes
from fedse.redact.episode import text_filter
from fedse.site import socket_client
from fedse.site.agreements import LAST, config_in
from fedse.site.answer import answer
from fedse.site.callers import Callers, RoundClosed
from fedse.site.listening import SocketAddress, hung_up, listen, serve_each
from fedse.site.log import log_to
from fedse.site.open import open_site
from fedse.site.opening_log import OpeningLog
from fedse.site.served import ServedSites
from fedse.site.socket_client import MAX_JSON_BYTES, bound_waiting
from fedse.site.trial import OPEN_HELP, WHEN, Opening, opening_as, require_opens, tell_where
from fedse.store.space import answer_room, is_full, require_room
from fedse.types import ClientStats

HOME_HELP = (
    "the client's folder: its buffer and the log; with several clients, HOME/CLIENT for each"
)

UNREAD = "refused: a frame was too long or did not arrive"
log = logging.getLogger("fedse.site")


class ByteConnection(Protocol):
    """The side of a connection that is used here: bytes in, bytes out."""

    def send_bytes(self, buf: bytes) -> None: ...
    def recv_bytes(self, maxlength: int | None = None) -> bytes: ...


def serve_forever(
    listener: Listener,
    sites: ServedSites,
    pulse: Pulse | None = None,
    callers: Callers | None = None,
) -> None:
    """Every connection is answered, one after another, until the listener is closed.

    `pulse` shows meanwhile whether there is work.
    """
    callers = callers or Callers()

    def serve_one(connection: "Connection[Any, Any]") -> None:
        with pulse.working() if pulse else nullcontext():
            bound_waiting(connection, socket_client.FRAME_SECONDS)
            exchange(connection, sites, callers, gone=partial(hung_up, connection))
        give_back()

    serve_each(callers.one_by_one(listener, log), serve_one, log)


def exchange(
    connection: ByteConnection,
    sites: ServedSites,
    callers: Callers | None = None,
    *,
    gone: Callable[[], bool] = lambda: False,
) -> None:
    """One request was read and one reply was sent, whatever the request was.

    Nothing is done if the caller is gone before the work begins: it can ask again. Work on a round
    that is closed stops.
    """
    reply, client = SiteReply(ClientStats()), UNNAMED
    try:
        frame = connection.recv_bytes(MAX_JSON_BYTES)
        body = connection.recv_bytes(largest_body(frame, sites))
        name, question = parse_question(frame, sites)
        sites.follow(question.round)
        client = sites.place_in(question, name)
        if gone():
            log.warning("dropped: the caller for round %d has hung up", question.round)
            return
        site = sites.site(name)
        with (callers := callers or Callers()).serving(question, gone):
            reply = _answer(site, question, body, sites, callers)
    except RoundClosed:
        log.info("stopped: round %d is closed and a later question waits", question.round)
        return
    except FedSEError as error:
        log.error("refused: %s (%s)", error, error.hint, exc_info=True)
        fault = Fault.FULL_DISK if is_full(error) else Fault(error.exit_code)
        reply = SiteReply(ClientStats(), fault=fault)
    except (OSError, EOFError) as error:
        full = is_full(error)
        log.error("%s: %s", "the disk is full" if full else UNREAD, error)
        reply = SiteReply(ClientStats(), fault=Fault.FULL_DISK if full else Fault.REQUEST)
    except Exception:
        log.exception("failed in an unforeseen way")
        reply = SiteReply(ClientStats(), fault=Fault.UNFORESEEN)
    _send(connection, client, reply)


def _answer(
    site: Site, question: Question, body: bytes, sites: ServedSites, callers: Callers
) -> SiteReply:
    emit = partial(_note, callers)
    if site.home is not None:
        require_room(answer_room(site.home, site.spec.nbytes))
    return answer(question, body, site, sites.config, policy=sites.policy, emit=emit)


def _send(connection: ByteConnection, client: int, reply: SiteReply) -> None:
    numbers = {"client": client, "fault": reply.fault, "stats": reply.stats.model_dump(mode="json")}
    connection.send_bytes(json.dumps(numbers).encode())
    connection.send_bytes(reply.adapter or b"")


def parse_question(frame: bytes, sites: ServedSites) -> tuple[str, Question]:
    """The site and its question; anything but exactly the agreed form is refused."""
    with boundary(WireError, "request"):
        envelope = json.loads(frame)
        if not isinstance(envelope, dict) or set(envelope) != {"client", "request"}:
            raise WireError("request: expected the keys client and request")
        place = envelope["client"]
        if place is not None and type(place) is not int:
            raise WireError("request: client must be a number or null")
        question = Question.model_validate(envelope["request"], strict=True)
    return sites.client_at(place), question


def largest_body(frame: bytes, sites: ServedSites) -> int:
    """The most bytes beside a question of this kind; a longer message is not read."""
    sizes = Sizes(sites.spec.nbytes, len(sites.config.clients))
    try:
        kind = KINDS[json.loads(frame)["request"]["kind"]]
    except (ValueError, LookupError, TypeError):
        kind = KINDS["train"]  # the frame is refused later, by what it lacks
    return kind.down(sizes)


def _note(callers: Callers, event: str, /, **facts: Fact) -> None:
    callers.look()
    log.info("%s", json.dumps({"event": event, **facts}))


def run_worker(
    config: Config,
    clients: Sequence[str],
    address: SocketAddress,
    home: Path,
    policy: Path | None = None,
    pulse: Pulse | None = None,
    opening: Opening = Opening(),  # noqa: B008  a value that nobody changes
) -> None:
    """Serves until SIGTERM or SIGINT; the first site is open before the socket exists, or was."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    log_to(home, log, redact=text_filter(config.redact, home))

    callers = Callers()
    tried: dict[str, Config] = {}

    def open_one(name: str) -> Site:
        own = home if len(clients) == 1 else home / name
        new = tried.get(name) != sites.config
        return opened(sites.config, name, own, callers, pulse, new=new)

    spec = spec_of if opening.trial else None
    sites = ServedSites(config, clients, open_one, policy, partial(config_in, home, config), spec)
    sites.follow(LAST)
    try:
        # Without a pulse: how long loading may take, the starter decides.
        if opening.trial:
            require_opens(opening.trial)
            tried[sites.clients[0]] = sites.config
        else:
            require_first(sites)
        if opening.only:
            return
        with listen(address) as listener:
            log.info("ready: %s at %s", ", ".join(clients), address.path)
            print(f"ready {address.path}", flush=True)
            serve_forever(listener, sites, pulse, callers)
    finally:
        sites.close()


def opened(
    config: Config, name: str, home: Path, callers: Callers, pulse: Pulse | None, *, new: bool
) -> Site:
    """The site, which says while it is opened what it does; all its erasures have their lines.

    One that is not `new` was opened with these settings when this process began.
    """
    opening = OpeningLog(name, partial(print, file=sys.stderr, flush=True), time.monotonic)
    beat = partial(_each, [opening.beat, callers.look, *([pulse.beat] if pulse else [])])
    site = open_site(config, name, home, clock=time.time, beat=beat, new=new)
    opening.end()
    # A crash may have come between an erasure and its line.
    note_erasures(home, name, site.buffer.erasures.all(), clock=time.time)
    return site


def require_first(sites: ServedSites) -> None:
    """The first site is open, and its buffer has the answers that its ledger records."""
    first = sites.site(sites.clients[0])
    if first.home is not None:
        require_answers(first.home)


def _each(beats: Sequence[Callable[[], None]]) -> None:
    for beat in beats:
        beat()


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
        "--own-settings",
        type=Path,
        help="a TOML file with the site's own [engine], [trainer] and [storage]",
    )
    parser.add_argument(
        "--pulse", type=Path, help="a file that is there while there is work, and touched by it"
    )
    parser.add_argument(
        "--modules", help="a folder of modules, such as an environment; looked for there last"
    )
    parser.add_argument("--open", choices=WHEN, default="now", help=OPEN_HELP)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a worker from the command line; the exit code is the error's."""
    given = _arguments(argv)
    # Whoever kills a worker that hangs asks it first where it is; the answer is in its log.
    tell_where()
    if given.modules:
        # Last: nothing in that folder stands for a module of Python's or of an installed package.
        sys.path.append(given.modules)
    try:
        address = SocketAddress(given.socket, given.socket_group)
        config = load_config(given.config)
        if given.own_settings:
            config = with_own_settings(config, given.own_settings)
        pulse = Pulse(given.pulse) if given.pulse else None
        opening = opening_as(given.open, sys.argv[1:] if argv is None else argv)
        run_worker(config, given.client, address, given.home, given.policy, pulse, opening)
    except FedSEError as error:
        hint = f"\n  next: {error.hint}" if error.hint else ""
        print(f"error: {error}{hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
