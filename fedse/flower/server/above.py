"""The round loop of a region: it waits for what the coordinator above asks, and does that.

It listens where a site's worker would. One question is answered at a time; whoever hung up asks
again and gets the answer that was kept. What went wrong is in the run's log, and a number leaves.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from fedse.config.regional import DEADLINE_SHARE
from fedse.drivers.region import Membership, Region
from fedse.errors import FedSEError, WireError, boundary
from fedse.faults import Fault
from fedse.federation.above import told_socket
from fedse.federation.home import Home
from fedse.federation.line import FILE as LINE
from fedse.federation.line import read_line
from fedse.protocol import KINDS, Ask, Question, SiteReply, Sizes
from fedse.site.listening import SocketAddress, accepted, hung_up, listen, serve_each
from fedse.site.socket_client import FRAME_SECONDS, MAX_JSON_BYTES, bound_waiting
from fedse.store.next_round import is_to_stop
from fedse.store.run import Run
from fedse.store.space import is_full
from fedse.types import ClientStats

WAIT_SECONDS = 1.0
"""Between two looks whether somebody wants the run to stop."""
LEAVE_SECONDS = 120.0
"""In which the last answer must have left; else the coordinator above would wait in vain."""
log = logging.getLogger("fedse.region")


def patience_below(above: Home) -> float:
    """Seconds for which sites that never came are waited for: half of what the deadlines leave."""
    return (1 - DEADLINE_SHARE) / 2 * above.config.aggregate.deadline


def serve_region(run: Run, ask: Ask, above: Home, *, beat: Callable[[], None]) -> None:
    """The last adapter is known here, or the run was to stop."""
    name = above.card.site
    region = Region(run, ask, Membership(name, above.config, above.path), clock=time.time)
    place = sorted(above.config.members).index(name)
    gone = partial(has_left, above.path / LINE)
    serve_above(run, region, told_socket(above.path), place=place, beat=beat, gone=gone)


def has_left(line: Path, given: float) -> bool:
    """Whether the answer that was given to the node at that time is above, or waits in vain."""
    told = read_line(line)
    sent = told is not None and told.sent is not None and told.sent > given
    return sent or time.monotonic() > given + LEAVE_SECONDS


def serve_above(
    run: Run,
    region: Region,
    socket: Path,
    *,
    place: int,
    beat: Callable[[], None],
    gone: Callable[[float], bool],
) -> None:
    """As `serve_region`, at this socket; `place` is the region's among the members above.

    `gone` tells whether an answer that was given at a time has left.
    """
    given = time.monotonic()
    rounds = run.config.run.rounds
    run.emit(
        "run.started", rounds=rounds, committed=run.committed or 0, clients=len(run.config.clients)
    )
    waiting: SimpleQueue[Connection[Any, Any]] = SimpleQueue()

    def serve_one(connection: "Connection[Any, Any]") -> None:
        nonlocal given
        bound_waiting(connection, FRAME_SECONDS)
        _exchange(connection, run, region, place)
        given = time.monotonic()

    with listen(SocketAddress(socket)) as listener:
        threading.Thread(target=_take, args=(listener, waiting), daemon=True).start()
        while not (region.finished and gone(given)):
            beat()
            if is_to_stop(run.path):
                run.emit("run.stopped", round=run.committed or 0, adapter=_newest(run))
                return
            try:
                serve_each([waiting.get(timeout=WAIT_SECONDS)], serve_one, log)
            except Empty:
                continue
    run.emit("run.finished", rounds=rounds, adapter=_newest(run))


def _take(listener: Listener, waiting: "SimpleQueue[Connection[Any, Any]]") -> None:
    for connection in accepted(listener, log):
        waiting.put(connection)


def _newest(run: Run) -> str:
    return run.digest(run.committed or 0)


def _exchange(connection: "Connection[Any, Any]", run: Run, region: Region, place: int) -> None:
    """One question was read and one reply was sent, unless nobody waits for it."""
    try:
        frame = connection.recv_bytes(MAX_JSON_BYTES)
        question = _question(frame)
        most = KINDS[question.kind].down(Sizes(run.spec.nbytes, 1))
        body = connection.recv_bytes(most)
        if hung_up(connection):
            return
        reply = region.answer(question, body)._replace(client=place)
    except FedSEError as error:
        fault = Fault.FULL_DISK if is_full(error) else Fault(error.exit_code)
        run.emit("region.refused", reason=str(error), fault=int(fault))
        reply = SiteReply(ClientStats(), fault=fault, client=place)
    numbers = {"client": reply.client, "fault": reply.fault, "stats": reply.stats.model_dump()}
    connection.send_bytes(json.dumps(numbers).encode())
    connection.send_bytes(reply.adapter or b"")


def _question(frame: bytes) -> Question:
    with boundary(WireError, "request"):
        return Question.model_validate(json.loads(frame)["request"], strict=True)
