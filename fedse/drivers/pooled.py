"""Driver: every client explores at home, one trainer learns from what all of them have.

Federation exists to avoid this, so it is a baseline only: it needs all the experience in one
place. It differs from the local driver only in who trains on what.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fedse.config.schema import Config, TrainSection
from fedse.drivers.sites import OpenSite, Sites
from fedse.method.lessons import failures_for
from fedse.method.site import Site
from fedse.protocol import Delivery, Request
from fedse.seeds import seed_of
from fedse.store.run import Run
from fedse.types import Adapter, Clock, Fitted, Trajectory


class Pooled:
    """Asks the clients one after another, and answers for all with one adapter."""

    def __init__(self, run: Run, clock: Clock, open_site: OpenSite) -> None:
        self._run = run
        self._trainable: dict[str, Site] = {}
        settings = _for_all(run.config)

        def open_idle(config: Config, client: str, home: Path, *, clock: Clock) -> Site:
            self._trainable[client] = open_site(settings, client, home, clock=clock)
            return replace(self._trainable[client], fit=_unchanged)

        self._sites = Sites(run.config, run.path, clock, open_idle)

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        data = adapter.to_bytes()
        names = [client.name for client in self._run.config.clients if client.name not in skip]
        deliveries = [self._sites.answer(name, request, data, self._run.emit) for name in names]
        sound = [delivery for delivery in deliveries if not delivery.exclusion]
        if not request.train or not sound:
            yield from deliveries
            return
        fitted = self._fit([delivery.client for delivery in sound], request, adapter)
        for delivery in deliveries:
            yield delivery if delivery.exclusion else _with_adapter(delivery, fitted)

    def close(self) -> None:
        """No file of a client is open any more."""
        self._sites.close()

    def _fit(self, clients: Sequence[str], request: Request, adapter: Adapter) -> Fitted | None:
        config, round = self._run.config, request.round
        lessons: list[Trajectory] = []
        failures: list[Trajectory] = []
        for client in clients:
            site = self._trainable[client]
            own = site.buffer.lessons(request.experiment, round, config.buffer.history)
            lessons += (prepared := site.prepare(own))
            failed = failures_for(site.buffer, config, round=round, lessons=len(prepared))
            failures += site.prepare(failed)
        if not lessons:
            return None
        seed = seed_of(self._run.config.run.seed, "pooled", request.round)
        settings = _for_all(self._run.config).train_in(request.round)
        return self._trainable[clients[0]].fit(adapter, [*lessons, *failures], settings, seed)


def _for_all(config: Config) -> Config:
    """The settings with as many optimiser steps allowed as all clients would do together."""
    changed = {}
    for name in ("train", "warmstart"):
        section = getattr(config, name)
        most = section.max_steps
        steps = {"max_steps": most * len(config.clients) if most else None}
        changed[name] = section.model_copy(update=steps)
    return config.model_copy(update=changed)


def _unchanged(
    start: Adapter, lessons: Sequence[Trajectory], settings: TrainSection, seed: int
) -> Fitted:
    return Fitted(start, loss=0.0, steps=0)


def _with_adapter(delivery: Delivery, fitted: Fitted | None) -> Delivery:
    if fitted is None:
        return delivery._replace(adapter=None)
    learned = {"loss": fitted.loss, "steps": fitted.steps}
    stats = delivery.stats.model_copy(update=learned)
    return Delivery(delivery.client, stats, fitted.adapter.to_bytes())
