"""Let the sites play with a merged adapter before it counts; without them it does not count.

If it is worse than the one before, those whose votes may have made it so are left out, one after
another, at most as many as the gate tolerates: each time the one without whom the sites do best.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from fedse.aggregate.gate import GateVerdict, Won, judge
from fedse.committed import Exclusion, GateRecord
from fedse.config.schema import Config
from fedse.method.site import Merged
from fedse.protocol import Ask, Delivery, Request
from fedse.seeds import seed_of
from fedse.store.run import Run
from fedse.types import Adapter

Merge = Callable[[frozenset[str]], Merged]
"""The merged adapter without the votes of these clients."""


class Gated(NamedTuple):
    """What becomes of a round's votes."""

    merged: Merged
    """Its adapter is the one before if nothing passed the gate."""
    record: GateRecord


def gate(panel: "PlayingSites", current: Adapter, merge: Merge) -> Gated:
    """The merge of as many votes as possible that the sites do not find worse than `current`."""
    before = panel.play(current)
    whole = merge(frozenset())
    first = panel.judge(before, whole.adapter)
    if first.accepted or not whole.voters:
        return Gated(whole, _record(first, refused=False))
    without: frozenset[str] = frozenset()
    for _ in range(min(panel.liars, len(whole.voters) - 1)):
        tried = [
            (panel.judge(before, merged.adapter), client, merged)
            for client in whole.voters
            if client not in without and (merged := merge(without | {client})).voters
        ]
        verdict, client, merged = max(tried, key=lambda one: (one[0].change, one[1]))
        without |= {client}
        if verdict.accepted:
            named = (*merged.excluded, *map(_suspected, sorted(without)))
            return Gated(merged._replace(excluded=named), _record(verdict, refused=False))
    stays = whole._replace(adapter=current, moments=panel.moments)
    return Gated(stays, _record(first, refused=True))


class PlayingSites:
    """The sites that play a round's validation games: all but `skip`, `out` in quarantine."""

    def __init__(
        self, run: Run, ask: Ask, index: int, skip: Collection[str], *, out: int = 0
    ) -> None:
        self._run, self._ask, self._index, self._skip = run, ask, index, skip
        # Who is in quarantine is asked nothing, so there are as many fewer to beware of.
        self.liars = max(0, run.config.gate.liars - out)
        self.moments = run.moments(index - 1)

    def judge(self, before: dict[str, Won], adapter: Adapter) -> GateVerdict:
        settings = self._run.config.gate
        seed = seed_of(self._run.config.run.seed, "gate", self._index)
        after = self.play(adapter)
        return judge(before, after, liars=self.liars, level=settings.level, seed=seed)

    def play(self, adapter: Adapter) -> dict[str, Won]:
        """How often each site won with `adapter`; what was counted once is not asked again."""
        run = self._run
        counted = {client: Won(*pair) for client, pair in run.validations(adapter.digest).items()}
        if not counted:
            request = _request(run, self._index, adapter)
            counted = dict(_counts(self._ask(request, adapter, skip=self._skip), run.config))
            run.record_validations(adapter.digest, counted)
            won, played = (sum(one[i] for one in counted.values()) for i in (0, 1))
            run.emit(
                "gate.played", round=self._index, adapter=adapter.digest, won=won, played=played
            )
        return counted


def _counts(deliveries: Iterable[Delivery], config: Config) -> Iterable[tuple[str, Won]]:
    for delivery in deliveries:
        stats = delivery.stats
        if delivery.exclusion or delivery.client not in config.members:
            continue
        if 0 < stats.validation_played <= config.gate.episodes:
            yield delivery.client, Won(stats.validation_succeeded, stats.validation_played)


def _request(run: Run, index: int, adapter: Adapter) -> Request:
    return Request(
        experiment=run.config.run.name,
        round=index,
        agreed=run.config.agreed_digest(),
        spec=run.spec.identity,
        adapter=adapter.digest,
        train=False,
        evaluate=False,
        validate_only=True,
    )


def _record(verdict: GateVerdict, *, refused: bool) -> GateRecord:
    return GateRecord(
        change=verdict.change, bound=verdict.bound, sites=verdict.sites, refused=refused
    )


def _suspected(client: str) -> Exclusion:
    reason = "without its vote the sites do not lose more games than before"
    return Exclusion(client=client, kind="suspected", reason=reason)
