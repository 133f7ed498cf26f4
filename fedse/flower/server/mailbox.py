"""Messages to nodes and replies from them, over a SuperLink that may be busy or restarting."""

import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import httpx
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from fedse.flower.server.arrivals import ReadReply, arrivals, one_by_one

# A SuperLink restarts well within this; after a minute without it Flower ends the run anyway.
TRIES, RETRY_SECONDS = 10, 5.0

# A reply that is at the SuperLink as a whole is here within this, 400 MB included.
PULL_SECONDS = 5.0
# The SuperLink tells within this which of a thousand replies have come.
LOOK_SECONDS = 5.0
# The list of nodes is read so seldom that it costs a fiftieth of the time, and at least this often.
NODES_SECONDS, NODES_SHARE = 3.0, 0.02
BUSY = (httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT)

T = TypeVar("T")


class Node(NamedTuple):
    """A site as Flower knows it."""

    id: int
    name: str
    """What it was registered as; empty where nodes are not registered by name."""
    since: str
    """When it last came online; one that came back does not know its earlier requests."""

    @property
    def key(self) -> str:
        """Identifies the node from one request to the next, also across a restart of the server."""
        return self.name or f"node {self.id}"


class Sent(NamedTuple):
    """A message on its way: its node, and when an answer becomes useless."""

    node: Node
    round: int
    expires: float


class Mailbox:
    """Flower's Grid, which blocks, fails and restarts, so that no node can hold up the others."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._nodes, self._list_again = list[Node](), 0.0
        self._look: _Look | None = None
        self._pulls: dict[str, _Pull] = {}
        """By question, the replies that have come and are not read yet."""

    def present(self) -> list[Node]:
        """The nodes that were online at most NODES_SECONDS ago, always in the same order."""
        began = time.monotonic()
        if began >= self._list_again:
            nodes = with_retries(lambda: list(self._grid.get_nodes()))
            self._nodes = sorted(
                Node(one.node_id, one.name, one.last_activated_at) for one in nodes
            )
            now = time.monotonic()
            self._list_again = now + min((now - began) / NODES_SHARE, NODES_SECONDS)
        return list(self._nodes)

    def send(self, to: Mapping[Node, float], content: RecordDict, *, round: int) -> dict[str, Sent]:
        """The messages on their way, by id; each lives for its node's seconds.

        The time to live ends the work a site would do for a round that is over. A node whose
        message was refused has none.
        """
        messages = [
            Message(content, node.id, MessageType.TRAIN, ttl=seconds, group_id=str(round))
            for node, seconds in to.items()
        ]
        taken = set(with_retries(lambda: self._grid.push_messages(messages)) if messages else ())
        now = time.monotonic()
        return {
            message.metadata.message_id: Sent(node, round, now + seconds)
            for message, (node, seconds) in zip(messages, to.items(), strict=True)
            if message.metadata.message_id in taken
        }

    def replies(self, waiting: Mapping[str, Sent]) -> Iterator[tuple[str, Sent, Message | None]]:
        """The replies that are there now; None if one cannot be read.

        Read one by one, so that a reply Flower fails to read can be attributed to its node, and
        usually one payload is in memory. A reply to a question that has expired, and that nobody
        waits for, is forgotten.
        """
        now = time.monotonic()
        self._pulls = {i: p for i, p in self._pulls.items() if i in waiting or now < p.expires}
        self._find(waiting)
        for message_id in [i for i in waiting if i in self._pulls]:
            if message_id not in waiting:
                continue  # another reply of the same node came first
            sent = waiting[message_id]
            try:
                messages = self._pull(message_id)
            except httpx.HTTPError:
                continue  # the SuperLink is busy or restarting: it is read again at the next look
            except Exception:
                traceback.print_exc()
                yield message_id, sent, None
                continue
            # Flower gives whatever else lies there for the server beside the reply.
            for reply in [r for r in messages if r.metadata.reply_to_message_id == message_id][:1]:
                yield message_id, sent, reply

    def _find(self, waiting: Mapping[str, Sent]) -> None:
        """The replies that have come by now are among the pulls.

        If the SuperLink cannot tell of all at once, because it fails at one of them, it is asked
        for each alone.
        """
        asked = {i: sent.expires for i, sent in waiting.items() if i not in self._pulls}
        if self._look is None and asked:
            self._look = _Look(asked, _UnderWay(partial(arrivals, self._grid, list(asked))))
        if self._look is None or not self._look.call.over(LOOK_SECONDS):
            return
        look, self._look = self._look, None
        try:
            found = look.call.result()
        except Exception as error:
            if _is_busy(error):
                return
            found = one_by_one(self._grid, look.asked)
        # What has come is told once, so it is kept whoever waits for it now.
        self._pulls |= {i: _Pull(read, look.asked[i]) for i, read in found.items()}

    def _pull(self, message_id: str) -> Sequence[Message]:
        """The reply, if it is here whole.

        Flower hands out a reply when its upload has begun and then waits for the rest, up to two
        hours. So it waits in a thread: a slow or broken upload costs the others PULL_SECONDS once.
        """
        pull = self._pulls[message_id]
        first, reading = pull.reading is None, pull.reading or _UnderWay(pull.read)
        if not reading.over(PULL_SECONDS if first else 0.0):
            pull.reading = reading
            return ()
        pull.reading = None
        if not isinstance(reading.error, httpx.HTTPError):
            del self._pulls[message_id]
        return reading.result()


class _UnderWay(Generic[T]):
    """A call under way in a thread of its own, for as long as it takes."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call, self._found = call, list[T]()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def over(self, seconds: float) -> bool:
        """Whether it has ended, now or within so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(self._call())
        # What Flower raises when it has given up this run is not an Exception.
        except BaseException as error:
            self.error = error


class _Look(NamedTuple):
    """A request for what has come, with the questions it asks for and when each expires."""

    asked: Mapping[str, float]
    call: _UnderWay[dict[str, ReadReply]]


@dataclass
class _Pull:
    """A reply that has come; it is read when it is its turn."""

    read: ReadReply
    expires: float
    reading: _UnderWay[Sequence[Message]] | None = None


def _is_busy(error: Exception) -> bool:
    """Whether a SuperLink, or the proxy before it, says that it cannot answer anything now."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in BUSY
    return isinstance(error, httpx.TransportError)


def with_retries(call: Callable[[], T]) -> T:
    """What `call` returns; it is called again while the SuperLink is busy or restarting."""
    retrying = Retrying(
        retry=retry_if_exception_type(httpx.HTTPError),
        stop=stop_after_attempt(TRIES),
        wait=wait_fixed(RETRY_SECONDS),
        reraise=True,
    )
    return retrying(call)
