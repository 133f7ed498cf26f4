"""Messages to nodes and replies from them, over a SuperLink that may be busy or restarting."""

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import httpx
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import RunNotRunningException

# A SuperLink restarts well within this; after a minute without it Flower ends the run anyway.
TRIES, RETRY_SECONDS = 10, 5.0

T = TypeVar("T")


class Node(NamedTuple):
    """A site as Flower knows it."""

    id: int
    name: str
    """What it was registered as; empty where nodes are not registered by name."""
    since: str
    """When it last came online; one that came back does not know what it was asked before."""

    @property
    def key(self) -> str:
        """By what it is known from one question to the next, also over a restart of the server."""
        return self.name or f"node {self.id}"


class Sent(NamedTuple):
    """A message on its way: to whom, and when it is no longer worth an answer."""

    node: Node
    round: int
    expires: float


def present(grid: Grid) -> list[Node]:
    """The nodes that are online now, always in the same order."""
    found = patiently(lambda: list(grid.get_nodes()))
    return sorted(Node(info.node_id, info.name, info.last_activated_at) for info in found)


def send(
    grid: Grid, nodes: Sequence[Node], content: RecordDict, *, round: int, seconds: float
) -> dict[str, Sent]:
    """The messages that are on their way, by id; a node whose message was refused has none."""
    # The time to live ends the work a site would do for a round that is over.
    messages = [
        Message(content, node.id, MessageType.TRAIN, ttl=seconds, group_id=str(round))
        for node in nodes
    ]
    taken = set(patiently(lambda: grid.push_messages(messages)) if messages else ())
    expires = time.monotonic() + seconds
    return {
        message.metadata.message_id: Sent(node, round, expires)
        for message, node in zip(messages, nodes, strict=True)
        if message.metadata.message_id in taken
    }


def replies(grid: Grid, waiting: Mapping[str, Sent]) -> Iterator[tuple[str, Sent, Message | None]]:
    """The replies that are there now; None if one cannot be read.

    Pulled one by one, so that one payload is in memory and a reply that breaks Flower's own
    reading is known by its node.
    """
    for message_id, sent in list(waiting.items()):
        if message_id not in waiting:
            continue  # another reply of the same node came first
        found: Iterable[Message | None]
        try:
            found = list(grid.pull_messages([message_id]))
        except httpx.HTTPError:
            continue  # the SuperLink is busy or restarting: there is another look
        except RunNotRunningException:
            raise  # Flower has given this run up, which is no node's fault
        except Exception:
            traceback.print_exc()
            found = [None]
        for reply in found:
            yield message_id, sent, reply
            break


def patiently(call: Callable[[], T]) -> T:
    """What `call` gives; a SuperLink that is busy or restarting is asked again."""
    for _ in range(TRIES - 1):
        try:
            return call()
        except httpx.HTTPError:
            time.sleep(RETRY_SECONDS)
    return call()
