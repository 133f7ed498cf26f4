"""Messages to nodes and replies from them, over a SuperLink that may be busy or restarting."""

import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import httpx
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

# A SuperLink restarts well within this; after a minute without it Flower ends the run anyway.
TRIES, RETRY_SECONDS = 10, 5.0

# A reply that is at the SuperLink as a whole is here within this, 400 MB included.
PULL_SECONDS = 5.0

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
        self._pulls: dict[str, _Pull] = {}

    def present(self) -> list[Node]:
        """The nodes that are online now, always in the same order."""
        nodes = with_retries(lambda: list(self._grid.get_nodes()))
        return sorted(Node(info.node_id, info.name, info.last_activated_at) for info in nodes)

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

        Pulled one by one, so that a reply Flower fails to read can be attributed to its node,
        and usually one payload is in memory. A reply to a question that has expired, and that
        nobody waits for, is forgotten.
        """
        now = time.monotonic()
        self._pulls = {i: p for i, p in self._pulls.items() if i in waiting or now < p.expires}
        for message_id, sent in list(waiting.items()):
            if message_id not in waiting:
                continue  # another reply of the same node came first
            try:
                messages = self._pull(message_id, sent.expires)
            except httpx.HTTPError:
                continue  # the SuperLink is busy or restarting: the next look tries again
            except Exception:
                traceback.print_exc()
                yield message_id, sent, None
                continue
            # Flower gives whatever else lies there for the server beside the reply.
            for reply in [r for r in messages if r.metadata.reply_to_message_id == message_id][:1]:
                yield message_id, sent, reply

    def _pull(self, message_id: str, expires: float) -> Sequence[Message]:
        """The reply, if it is here whole.

        Flower hands out a reply when its upload has begun and then waits for the rest, up to two
        hours. So it waits in a thread: a slow or broken upload costs the others PULL_SECONDS once.
        """
        pull = self._pulls.get(message_id)
        if pull is None:
            pull = self._pulls[message_id] = _Pull(self._grid, message_id, expires)
            pull.join(PULL_SECONDS)
        if pull.is_alive():
            return ()
        del self._pulls[message_id]
        if pull.error is not None:
            raise pull.error
        return pull.messages


class _Pull(threading.Thread):
    """Requests one reply, for as long as Flower takes."""

    def __init__(self, grid: Grid, message_id: str, expires: float) -> None:
        super().__init__(daemon=True)
        self._grid, self._message_id, self.expires = grid, message_id, expires
        self.messages: list[Message] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.messages = list(self._grid.pull_messages([self._message_id]))
        # What Flower raises when it has given up this run is not an Exception.
        except BaseException as error:
            self.error = error


def with_retries(call: Callable[[], T]) -> T:
    """What `call` returns; it is called again while the SuperLink is busy or restarting."""
    retrying = Retrying(
        retry=retry_if_exception_type(httpx.HTTPError),
        stop=stop_after_attempt(TRIES),
        wait=wait_fixed(RETRY_SECONDS),
        reraise=True,
    )
    return retrying(call)
