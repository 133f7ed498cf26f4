"""Let the sites play with a merged adapter before it counts; without them it does not count.

Left out are votes that went many times as far as the others, then those shown to do harm: the
sites also play with what the round would come to had some members changed nothing, namely those
suspected before and those who agree least with the others. If what is left is worse than the
adapter before, votes are left out one after another, each time the one without whom the sites do
best. In all at most as many as the gate tolerates. Of many sites those on a panel play, which is
drawn for the round.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from fedse.aggregate.agreement import Stance, far_away, least_agreeing, opposed, stances_of
from fedse.aggregate.factors import request_bytes
from fedse.aggregate.gate import GateVerdict, Harm, Won, harm_of, judge
from fedse.aggregate.panel import panel_of, size_of_panel
from fedse.aggregate.parts import is_on
from fedse.aggregate.quarantine import WINDOW
from fedse.blocks import span_of
from fedse.committed import Exclusion, GateRecord
from fedse.config.schema import Config
from fedse.drivers.round import Merge, OpenRound
from fedse.method.site import Merged
from fedse.protocol import Delivery
from fedse.seeds import seed_of
from fedse.types import Adapter, AdapterSpec

LEVEL = 0.05
"""Probability with which an adapter that changes nothing is refused, and with which a site whose
vote changes nothing is left out."""
EXTREME = 10.0
"""A site that goes more than so many times as far as the median site is left out."""


def gate(r: OpenRound) -> OpenRound:
    """As many votes count as the sites do not find worse than the adapter before, or none."""
    panel, merge = PlayingSites(r), r.merge
    before = panel.play(r.current)
    whole = merge(frozenset())
    if not whole.voters:
        return _decided(r, whole, panel.judge(before, whole.adapter))
    suspects, kept, stances = frozenset[str](), whole, dict[str, Stance]()
    if panel.liars:
        votes = r.votes(whole)
        beside = panel_of(votes, liars=panel.liars, seed=panel.seed)
        stances = stances_of(r.current, votes, beside, whole.blocks)
        suspects, kept = _without_harm(panel, r.current, whole, merge, stances)
    first = panel.judge(before, kept.adapter)
    if first.accepted:
        return _decided(r, _naming(kept, suspects), first)
    without = suspects
    # Where too few sites played to judge, nobody is to blame.
    spare = min(panel.liars, len(whole.voters) - 1) - len(suspects) if first.sites else 0
    for _ in range(spare):
        left = sorted((stances[one].agreement, one) for one in whole.voters if one not in without)
        tried = [
            (panel.judge(before, merged.adapter), client, merged)
            for _, client in left[: size_of_panel(panel.liars)]
            if (merged := merge(without | {client})).voters
        ]
        verdict, client, merged = max(tried, key=lambda one: (one[0].change, one[1]))
        without |= {client}
        if verdict.accepted:
            return _decided(r, _naming(merged, without), verdict)
    stays = whole._replace(adapter=r.current, moments=r.run.moments(r.index - 1))
    return _decided(r, stays, first, refused=True)


def _without_harm(
    panel: "PlayingSites",
    current: Adapter,
    whole: Merged,
    merge: Merge,
    stances: Mapping[str, Stance],
) -> tuple[frozenset[str], Merged]:
    """Who went too far or harms the others, at most `liars` of them, and the merge without them."""
    far = far_away(stances, EXTREME)
    far = far if len(far) <= panel.liars else frozenset()
    near = {client: one for client, one in stances.items() if client not in far}
    judged, against = merge(far) if far else whole, opposed(near)
    worst, found, kept = 0.0, far, judged
    asked = least_agreeing(near, panel.liars - len(far), suspected=panel.suspected())
    for accused in asked:
        rest = merge(far | accused)
        if not rest.voters:
            continue
        idle = partway(current, rest.adapter, _shares(current.spec, rest, judged))
        harm = panel.harm(accused, idle, judged.adapter)
        # Of two groups the smaller one, unless the larger does clearly more harm.
        more = harm.proven and harm.change < worst + harm.bound / 2
        if more or (accused == against and not harm.helps):
            worst, found, kept = harm.change, far | accused, rest
    return found, kept


def partway(start: Adapter, end: Adapter, shares: Mapping[str, float]) -> Adapter:
    """In each block its share of the way from `start` to `end`, in one without blocks that of "".

    It is a mean in which the rest changed nothing.
    """
    moved = np.array(start.vector)
    for block, share in shares.items():
        span = span_of(start.spec, block)
        moved[span] += np.float32(share) * (end.vector[span] - start.vector[span])
    return Adapter(start.spec, moved)


def _shares(spec: AdapterSpec, rest: Merged, judged: Merged) -> dict[str, float]:
    """How many of the votes that are judged the rest has, by block."""
    shares = {}
    for block in spec.blocks or ("",):
        left, whole = (
            sum(is_on(block, one.blocks.get(name)) for name in one.voters) for one in (rest, judged)
        )
        shares[block] = left / whole if whole else 0.0
    return shares


class PlayingSites:
    """The sites of a round that play its validation games: a panel, where there are many."""

    def __init__(self, r: OpenRound) -> None:
        self._round, self._run = r, r.run
        # A site in quarantine is asked nothing, so there are as many fewer liars to expect.
        self.liars = max(0, r.run.config.gate.liars - len(r.out))
        self.seed = seed_of(r.run.config.run.seed, "panel", r.index)
        self._judges = panel_of(r.asked, liars=self.liars, seed=self.seed)
        self._counted: dict[str, dict[str, Won]] = {}

    def suspected(self) -> Mapping[str, int]:
        """Client -> rounds, of the last ones, in which its vote was left out."""
        excluded = (one for past in self._run.recent(WINDOW) for one in past.excluded)
        return Counter(one.client for one in excluded if one.kind == "suspected")

    def judge(self, before: Mapping[str, Won], adapter: Adapter) -> GateVerdict:
        seed = seed_of(self._run.config.run.seed, "gate", self._round.index)
        after = self.play(adapter)
        return judge(before, after, liars=self.liars, level=LEVEL, seed=seed)

    def harm(self, accused: Collection[str], idle: Adapter, whole: Adapter) -> Harm:
        """What the accused do to the others; `idle` is the merge had they changed nothing."""
        return harm_of(
            accused,
            self.play(idle),
            self.play(whole),
            liars=self.liars,
            level=LEVEL / self.liars,
            seed=seed_of(self._run.config.run.seed, "harm", self._round.index),
        )

    def play(self, adapter: Adapter) -> Mapping[str, Won]:
        """How often each site succeeded with `adapter`; no site is asked about it twice.

        Sites that were away when the adapter was played with before are asked once in this round.
        """
        if adapter.digest not in self._counted:
            self._counted[adapter.digest] = self._completed(adapter)
        return self._counted[adapter.digest]

    def _completed(self, adapter: Adapter) -> dict[str, Won]:
        run, r = self._run, self._round
        known = {client: Won(*pair) for client, pair in run.validations(adapter.digest).items()}
        # Who was away then and has answered since; nobody waits for a site that is away still.
        judges = [name for name in r.asked if name in self._judges]
        missing = [name for name in judges if name in r.answers and name not in known]
        missing = missing if known else judges
        if not missing:
            return known
        question = r.question("validate", adapter)
        deliveries = r.ask(question, request_bytes(adapter, run.config), of=missing)
        counted = dict(_counts(deliveries, run.config))
        run.record_validations(adapter.digest, counted)
        won, played = (sum(one[i] for one in counted.values()) for i in (0, 1))
        run.emit("gate.played", round=r.index, adapter=adapter.digest, won=won, played=played)
        return {**known, **counted}


def _counts(deliveries: Iterable[Delivery], config: Config) -> Iterable[tuple[str, Won]]:
    for delivery in deliveries:
        stats = delivery.stats
        if delivery.exclusion or delivery.client not in config.members:
            continue
        if 0 < stats.validation_played <= config.gate.episodes:
            yield delivery.client, Won(stats.validation_succeeded, stats.validation_played)


def _decided(
    r: OpenRound, merged: Merged, verdict: GateVerdict, *, refused: bool = False
) -> OpenRound:
    record = GateRecord(
        change=verdict.change, bound=verdict.bound, sites=verdict.sites, refused=refused
    )
    return replace(r, merged=merged, gate=record)


def _naming(merged: Merged, suspects: Collection[str]) -> Merged:
    return merged._replace(excluded=(*merged.excluded, *map(_suspected, sorted(suspects))))


def _suspected(client: str) -> Exclusion:
    reason = "its update goes against the others or harms them"
    return Exclusion(client=client, kind="suspected", reason=reason)
