"""Rounds of a federation's run with made-up answers: no site, no Flower, no model."""

import time
from collections.abc import Collection, Iterator
from contextlib import closing

from fedse.drivers.loop import federate
from fedse.federation.folder import Federation
from fedse.protocol import Delivery, Question
from fedse.store.run import Run
from fedse.store.run_folder import open_run
from fedse.testing import toy_adapter
from fedse.types import ClientStats

STATS = ClientStats(played=4, succeeded=2, buffered=3, loss=0.5, steps=1)


def run_all_rounds(federation: Federation, *, broken: str = "") -> None:
    """Every round is committed; the client named `broken` sends half an adapter each time."""
    with closing(open_run(federation.run, clock=time.time)) as run:
        federate(run, _answers(run, broken), clock=time.time)


def _answers(run: Run, broken: str):
    def ask(request: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
        for place, client in enumerate(c.name for c in run.config.clients):
            if client in of:
                data = toy_adapter(run.spec, place + 10 * request.round, scale=0.01).to_bytes()
                sent = data[: len(data) // 2] if client == broken else data
                played = {"eval_played": 4, "eval_succeeded": 1} if request.evaluate else {}
                stats = STATS.model_copy(update=played)
                yield Delivery(client, stats, sent if request.trains else None)

    return ask
