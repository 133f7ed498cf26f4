"""Let the sites play with a merged adapter before it counts; without them it does not count.

Left out are votes that went many times as far as the others, then those shown to do harm: the
sites also play with what the round would come to had some members changed nothing, namely those
suspected before and those who agree least with the others. If what is left is worse than the
adapter before, votes are left out one after another, each time the one without whom the sites do
best. In all at most as many as the gate tolerates.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from fedse.aggregate.agreement import Stance, far_away, least_agreeing, opposed
from fedse.aggregate.gate import GateVerdict, Harm, Won, harm_of, judge
from fedse.committed import Exclusion, GateRecord
from fedse.config.schema import Config
from fedse.method.site import Merged
from fedse.protocol import Ask, Delivery, Request
from fedse.seeds import seed_of
from fedse.store.run import Run
from fedse.types import Adapter

Merge = Callable[[frozenset[str]], Merged]
"""The merged adapter without the votes of these clients."""
Stances = Callable[[Merged], Mapping[str, Stance]]
"""How the votes of a merge stand to each other; nobody is asked about who is not in it."""


class Gated(NamedTuple):
    """What becomes of a round's votes."""

    merged: Merged
    """Its adapter is the one before if nothing passed the gate."""
    record: GateRecord


def gate(panel: "PlayingSites", current: Adapter, merge: Merge, stances: Stances) -> Gated:
    """The merge of as many votes as possible that the sites do not find worse than `current`."""
    before = panel.play(current)
    whole = merge(frozenset())
    if not whole.voters:
        return Gated(whole, _record(panel.judge(before, whole.adapter), refused=False))
    suspects, kept = frozenset[str](), whole
    if panel.accuses:
        suspects, kept = _without_harm(panel, current, whole, merge, stances(whole))
    first = panel.judge(before, kept.adapter)
    if first.accepted:
        return Gated(_naming(kept, suspects), _record(first, refused=False))
    without = suspects
    for _ in range(min(panel.liars, len(whole.voters) - 1) - len(suspects)):
        tried = [
            (panel.judge(before, merged.adapter), client, merged)
            for client in whole.voters
            if client not in without and (merged := merge(without | {client})).voters
        ]
        verdict, client, merged = max(tried, key=lambda one: (one[0].change, one[1]))
        without |= {client}
        if verdict.accepted:
            return Gated(_naming(merged, without), _record(verdict, refused=False))
    stays = whole._replace(adapter=current, moments=panel.moments)
    return Gated(stays, _record(first, refused=True))


def _without_harm(
    panel: "PlayingSites",
    current: Adapter,
    whole: Merged,
    merge: Merge,
    stances: Mapping[str, Stance],
) -> tuple[frozenset[str], Merged]:
    """Who went too far or harms the others, at most `liars` of them, and the merge without them."""
    far = far_away(stances, panel.extreme)
    far = far if len(far) <= panel.liars else frozenset()
    near = {client: one for client, one in stances.items() if client not in far}
    judged, against = merge(far) if far else whole, opposed(near)
    worst, found, kept = 0.0, far, judged
    asked = least_agreeing(near, panel.liars - len(far), suspected=panel.suspected())
    for accused in asked:
        rest = merge(far | accused)
        if not rest.voters:
            continue
        idle = partway(current, rest.adapter, len(rest.voters) / len(judged.voters))
        harm = panel.harm(accused, idle, judged.adapter)
        # Of two groups the smaller one, unless the larger does clearly more harm.
        more = harm.proven and harm.change < worst + harm.bound / 2
        if more or (accused == against and not harm.helps):
            worst, found, kept = harm.change, far | accused, rest
    return found, kept


def partway(start: Adapter, end: Adapter, share: float) -> Adapter:
    """`share` of the way from `start` to `end`: a mean in which the rest changed nothing."""
    moved = start.vector + np.float32(share) * (end.vector - start.vector)
    return Adapter(start.spec, moved)


class PlayingSites:
    """The sites that play a round's validation games: all but `skip`, `out` in quarantine."""

    def __init__(
        self, run: Run, ask: Ask, index: int, skip: Collection[str], *, out: int = 0
    ) -> None:
        self._run, self._ask, self._index, self._skip = run, ask, index, skip
        # Who is in quarantine is asked nothing, so there are as many fewer to beware of.
        self.liars = max(0, run.config.gate.liars - out)
        self.accuses = run.config.gate.accuse and self.liars > 0
        self.extreme = run.config.gate.extreme
        self.moments = run.moments(index - 1)

    def suspected(self) -> Mapping[str, int]:
        """Client -> rounds so far in which its vote was left out."""
        excluded = (one for past in self._run.results() for one in past.excluded)
        return Counter(one.client for one in excluded if one.kind == "suspected")

    def judge(self, before: dict[str, Won], adapter: Adapter) -> GateVerdict:
        settings = self._run.config.gate
        seed = seed_of(self._run.config.run.seed, "gate", self._index)
        after = self.play(adapter)
        return judge(before, after, liars=self.liars, level=settings.level, seed=seed)

    def harm(self, accused: Collection[str], idle: Adapter, whole: Adapter) -> Harm:
        """What the accused do to the others; `idle` is the merge had they changed nothing."""
        settings = self._run.config.gate
        return harm_of(
            accused,
            self.play(idle),
            self.play(whole),
            liars=self.liars,
            level=settings.level / self.liars,
            seed=seed_of(self._run.config.run.seed, "harm", self._index),
        )

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


def _naming(merged: Merged, suspects: Collection[str]) -> Merged:
    return merged._replace(excluded=(*merged.excluded, *map(_suspected, sorted(suspects))))


def _suspected(client: str) -> Exclusion:
    reason = "its update goes against the others or harms them"
    return Exclusion(client=client, kind="suspected", reason=reason)
