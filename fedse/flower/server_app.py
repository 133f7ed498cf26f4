"""The Flower side of the server: asks all nodes of a round and hears what arrives in time.

The round loop is fedse.coordinator's, so a run that ended goes on at its last committed round
when it is submitted again. Whatever one node sends, or fails to send, is that node's fault and
never the end of the run.
"""

import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

import httpx
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedse.coordinator import Delivery, Request, federate
from fedse.errors import ConfigError, WireError
from fedse.events import Fact
from fedse.federation.policy import (
    ABSTAINS,
    OTHER_EXPERIMENT,
    PAUSED,
    TOO_MANY_BYTES,
    TOO_MANY_ROUNDS,
    VETOED,
)
from fedse.flower.wire import read_reply, request_content
from fedse.run import Run
from fedse.run_folder import held, open_run
from fedse.types import Adapter, ClientStats

# Seconds between two looks for replies or nodes.
POLL_SECONDS = 1.0
# A SuperLink restarts well within this; after a minute without it Flower ends the run anyway.
TRIES, RETRY_SECONDS = 10, 5.0

# In the server's words, by the number a site sent (fedse.errors, fedse.site.socket_client).
SITE_FAULTS = {
    1: "the site failed in an unforeseen way",
    2: "the site's settings are wrong",
    3: "the site's machine lacks something",
    4: "the site's environment broke its contract",
    5: "the site rejected the adapter it was sent",
    6: "the site refused the request: experiment, settings or base model differ from its own",
    7: "the site cannot read or write its buffer",
    8: "training went wrong at the site",
    10: "too many episodes broke at the site",
    20: "the site's worker does not run, or not where its SuperNode looks for it",
    21: "the site's worker did not answer in time",
    22: "the site's worker broke off the answer",
    PAUSED: "the site is paused",
    OTHER_EXPERIMENT: "the site's policy does not allow this experiment",
    TOO_MANY_ROUNDS: "the site's policy allows no further rounds",
    TOO_MANY_BYTES: "the site's policy allows fewer bytes than an adapter has",
    VETOED: "the site vetoed the adapter: it solves too few of its held-out games",
}
# By the code of Flower's error replies (flwr.common.constant.ErrorCode).
FLOWER_FAULTS = {
    1: "the site could not load the app: is fedse installed there?",
    2: "the app failed at the site, or is not the bundle the site agreed to",
    3: "the message did not reach the site in time",
    4: "the reply was lost on its way",
    5: "the site went offline",
    7: "the site does not trust the app bundle",
    8: "the app was killed at the site",
}
SEE_SITE_LOG = "; the site's own worker.log says more"

T = TypeVar("T")

app = ServerApp()


class Node(NamedTuple):
    """A site as Flower knows it."""

    id: int
    name: str
    """What it was registered as; empty where nodes are not registered by name."""


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Context) -> None:
    """All rounds of the run folder named in the run config are committed."""
    folder = Path(str(context.run_config["run-dir"]))
    if not folder.is_absolute():
        raise ConfigError(
            f"run-dir must be the absolute path of a run folder, got {str(folder)!r}",
            hint="flwr run APP SUPERLINK --run-config 'run-dir=\"/path/to/run\"'",
        )
    with held(folder), closing(open_run(folder, clock=time.time, observers=[_print])) as run:
        ask = GridAsk(grid, run, join_seconds=float(context.run_config["join-seconds"]))
        federate(run, ask, clock=time.time)


def _print(event: str, facts: Mapping[str, Fact]) -> None:
    """Flower takes what is printed as the run's log, which `flwr log` shows."""
    shown = " ".join(f"{name}={fact}" for name, fact in facts.items() if name != "event")
    print(f"{event} {shown}", flush=True)


class GridAsk:
    """Asks every node that is there; remembers who spoke for whom to name those who fail."""

    def __init__(self, grid: Grid, run: Run, *, join_seconds: float) -> None:
        self._grid, self._run, self._join_seconds = grid, run, join_seconds
        self._members = sorted(client.name for client in run.config.clients)
        self._expected = len(self._members)
        self._spoke: dict[int, str] = {}

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        seconds = self._run.config.aggregate.deadline
        nodes = self._nodes()
        self._expected = max(1, len(nodes))
        nodes = [n for n in nodes if (n.name or self._spoke.get(n.id)) not in skip]
        content = request_content(request.model_dump(mode="json"), adapter.to_bytes())
        messages = [
            # The time to live ends the work a site would do for a round that is over.
            Message(content, node.id, MessageType.TRAIN, ttl=seconds, group_id=str(request.round))
            for node in nodes
        ]
        pushed = set(patiently(lambda: self._grid.push_messages(messages)) if messages else ())
        by_id = {node.id: node for node in nodes}
        asked = {
            message.metadata.message_id: by_id[message.metadata.dst_node_id]
            for message in messages
            if message.metadata.message_id in pushed
        }
        registered = {node.name for node in nodes if node.name}
        for node, reply in replies(self._grid, asked, seconds=seconds):
            yield self._delivery(node, reply, registered)

    def _nodes(self) -> list[Node]:
        """The nodes that are there; waits for as many as last time, but not for ever."""
        ends = time.monotonic() + min(self._join_seconds, self._run.config.aggregate.deadline)
        while True:
            found = patiently(lambda: list(self._grid.get_nodes()))
            if len(found) >= self._expected or time.monotonic() >= ends:
                return sorted(Node(info.node_id, info.name) for info in found)
            time.sleep(POLL_SECONDS)

    def _delivery(self, node: Node, reply: Message | None, registered: set[str]) -> Delivery:
        known = node.name or self._spoke.get(node.id, f"node {node.id}")
        try:
            client, stats, data, fault = read_reply(
                _content(reply), max_bytes=self._run.spec.nbytes
            )
        except WireError as error:
            return Delivery(known, ClientStats(), None, str(error))
        if fault and fault not in ABSTAINS:
            text = SITE_FAULTS.get(fault, SITE_FAULTS[1]) + SEE_SITE_LOG
            return Delivery(known, ClientStats(), None, text)
        if not 0 <= client < len(self._members):
            return Delivery(known, ClientStats(), None, "answered for no member")
        name = self._members[client]
        if node.name != name and (node.name or name in registered):
            return Delivery(known, ClientStats(), None, f"answered for {name}")
        self._spoke[node.id] = name
        if fault:
            self._run.emit("answer.abstained", client=name, reason=SITE_FAULTS[fault])
            return Delivery(name, stats, None)
        return Delivery(name, stats, data or None)


def _content(reply: Message | None) -> RecordDict:
    if reply is None:
        raise WireError("the reply cannot be read")
    if reply.has_error():
        raise WireError(FLOWER_FAULTS.get(reply.error.code, "the site failed") + SEE_SITE_LOG)
    return reply.content


def patiently(call: Callable[[], T]) -> T:
    """What `call` gives; a SuperLink that is busy or restarting is asked again."""
    for _ in range(TRIES - 1):
        try:
            return call()
        except httpx.HTTPError:
            time.sleep(RETRY_SECONDS)
    return call()


def replies(
    grid: Grid, asked: Mapping[str, Node], *, seconds: float
) -> Iterator[tuple[Node, Message | None]]:
    """Each node's reply as it arrives, None if it cannot be read; ends when the time is over.

    Pulled one by one, so that one payload is in memory and a reply that breaks Flower's own
    reading is known by its node.
    """
    waiting, ends = dict(asked), time.monotonic() + seconds
    while waiting and time.monotonic() < ends:
        for message_id, node in list(waiting.items()):
            try:
                found = list(grid.pull_messages([message_id]))
            except httpx.HTTPError:
                continue  # the SuperLink is busy or restarting: ask again until the time is over
            except Exception:
                traceback.print_exc()
                found = [None]
            for reply in found[:1]:
                del waiting[message_id]
                yield node, reply
        if waiting:
            time.sleep(POLL_SECONDS)
