"""Driver: every client explores at home, one trainer learns from what all of them have.

Federation exists to avoid this, so it is a baseline only: it needs all the experience in one
place. It differs from the local driver only in who trains on what.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fedse.aggregate.factors import learned_part, travelling_spec
from fedse.config.methods import newcomers
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.drivers.sites import OpenSite, Sites
from fedse.method.lessons import failures_for
from fedse.method.site import Site, course_in
from fedse.protocol import Delivery, Question
from fedse.seeds import seed_of
from fedse.store.moments_folder import MomentsFolder
from fedse.store.run import Run
from fedse.types import Adapter, Clock, Fitted, Lessons, Trajectory


class Pooled:
    """Asks the clients one after another, and answers for all with one adapter."""

    def __init__(self, run: Run, clock: Clock, open_site: OpenSite) -> None:
        self._run = run
        self._trainable: dict[str, Site] = {}
        """The sites that were opened, with their own training; one may be closed since."""
        self.for_all = settings = _for_all(run.config)
        self._moments = MomentsFolder(run.path / "moments")

        self._together = False
        """Whether a round is under way, in which one trainer learns for all."""

        def open_idle(config: Config, client: str, home: Path, *, clock: Clock) -> Site:
            site = self._trainable[client] = open_site(settings, client, home, clock=clock)

            def fit(*given: Any) -> Fitted:
                return _unchanged(*given) if self._together else site.fit(*given)

            return replace(site, fit=fit)

        self._sites = Sites(run.config, run.path, clock, open_idle)

    def __call__(
        self, question: Question, body: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        self._together, names = question.trains, [n for n in self._run.config.members if n in of]
        deliveries = [self._sites.answer(name, question, body, self._run.emit) for name in names]
        sound = [delivery.client for delivery in deliveries if not delivery.exclusion]
        if not question.trains or not sound:
            yield from deliveries
            return
        fitted = self._fit(sound, question.round)
        for delivery in deliveries:
            yield delivery if delivery.exclusion else self._with_adapter(delivery, fitted)

    def close(self) -> None:
        """No file of a client is open any more."""
        self._sites.close()

    def _fit(self, clients: Sequence[str], round: int) -> Fitted | None:
        config, adapter = self._run.config, self._run.adapter(round - 1)
        lessons: list[Trajectory] = []
        failures: list[Trajectory] = []
        for client in clients:
            site = self._opened(client)
            own = site.buffer.lessons(config.run.name, round, config.buffer.history)
            lessons += (prepared := site.prepare(own))
            failed = failures_for(site.buffer, config, round=round, lessons=len(prepared))
            failures += site.prepare(failed)
        if not lessons:
            return None
        seed = seed_of(config.run.seed, "pooled", round)
        settings = self.for_all.train_in(round)
        kept = settings.moments(partial(self._moments.before, round))
        course = course_in(self.for_all, "", round)._replace(moments=kept)
        fitted = self._opened(clients[0]).fit(
            adapter, [*lessons, *failures], settings, seed, course
        )
        if fitted.moments is not None:
            self._moments.keep(round, fitted.moments)
        return fitted

    def _opened(self, client: str) -> Site:
        self._sites.site(client)
        return self._trainable[client]

    def _with_adapter(self, delivery: Delivery, fitted: Fitted | None) -> Delivery:
        if fitted is None:
            return delivery._replace(adapter=None)
        learned = {"loss": fitted.loss, "steps": fitted.steps}
        stats = delivery.stats.model_copy(update=learned)
        returned = travelling_spec(self._run.spec, self._run.config)
        data = learned_part(fitted.adapter, returned).to_bytes()
        return Delivery(delivery.client, stats, data)


def _for_all(config: Config) -> Config:
    """The settings with the steps of all clients together."""
    changed: dict[str, Any] = {}
    learning = len(config.clients) - len(newcomers(config))
    for name, section in (("train", config.train), ("warmstart", config.warmstart)):
        given = section.model_dump(include={"steps", "max_steps"}, exclude_none=True)
        longer = {key: length * learning for key, length in given.items()}
        changed[name] = section.model_copy(update=longer)
    return config.model_copy(update=changed)


def _unchanged(
    start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
) -> Fitted:
    return Fitted(start, loss=0.0, steps=0)
