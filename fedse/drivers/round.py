"""A round of the server that is not committed yet, as the stages of `stages.py` fill it in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedse.aggregate.drift import drift_of
from fedse.aggregate.factors import narrowed, travelling_spec
from fedse.aggregate.quarantine import StrikeHistory, quarantined
from fedse.aggregate.variants import State
from fedse.committed import Exclusion, GateRecord, RoundResult
from fedse.method.site import Answer, Merged
from fedse.protocol import Ask, Kind, Question
from fedse.store.run import Run
from fedse.types import Adapter, AdapterSpec

Merge = Callable[[frozenset[str]], Merged]
"""The next adapter without the votes of these sites."""
Votes = Mapping[str, Callable[[], Adapter]]
"""Each vote, read from disk when it is needed."""


def _unmerged(out: frozenset[str]) -> Merged:
    raise AssertionError("a stage before this one says how votes are merged")


@dataclass(frozen=True)
class OpenRound:
    """What a round asks, what came, and what follows from it so far."""

    run: Run
    ask: Ask
    index: int
    current: Adapter
    """The global adapter that the round begins with."""
    past: StrikeHistory
    out: Mapping[str, Exclusion] = field(default_factory=dict)
    """Sites that are asked nothing: in quarantine, or not agreed to what holds now."""
    news: frozenset[str] | None = None
    """The sites that have something new, the only ones to be asked; None = all are."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """Of every site whose reply can be used, in the order of names."""
    faults: tuple[Exclusion, ...] = ()
    merge: Merge = _unmerged
    votes: Callable[[Merged], Votes] = lambda merged: {}
    """The votes of a merge, where the server has them and can compare them."""
    merged: Merged | None = None
    gate: GateRecord | None = None

    @property
    def expected(self) -> tuple[str, ...]:
        """The sites that take part by now, also those in quarantine."""
        clients = self.run.config.clients
        return tuple(client.name for client in clients if client.joins <= self.index)

    @property
    def asked(self) -> tuple[str, ...]:
        asked = self.expected if self.news is None else self.news
        return tuple(name for name in self.expected if name in asked and name not in self.out)

    @property
    def quarantined(self) -> dict[str, Exclusion]:
        """The members whose replies were rejected too often."""
        config = self.run.config
        return quarantined(self.past, config.members, limit=config.aggregate.strikes)

    @property
    def decided(self) -> Merged:
        assert self.merged is not None, "a stage before this one decides on the merge"
        return self.merged

    @property
    def excluded(self) -> tuple[Exclusion, ...]:
        return (*self.decided.excluded, *self.faults)

    @property
    def remembered(self) -> State:
        """What was remembered after the round before, unless it is of another base model."""
        return self.run.moments(self.index - 1) if self.index > self.run.config.model.since else ()

    def question(self, kind: Kind, adapter: Adapter, *, evaluate: bool = False) -> Question:
        """What the server asks in this round."""
        return Question(
            experiment=self.run.config.run.name,
            round=self.index,
            agreed=self.run.config.agreed_digest(),
            spec=self.run.spec.identity,
            adapter=adapter.digest,
            kind=kind,
            evaluate=evaluate,
        )

    def result(self) -> RoundResult:
        """What the round comes to, without the time it took; its adapter is stored."""
        run, merged = self.run, self.decided
        named = {*self.answers, *merged.voters, *(fault.client for fault in self.faults)}
        revoked = sum(fault.kind == "revoked" for fault in self.faults)
        travelling = travelling_spec(run.spec, run.config)
        votes = self.votes(merged)
        counted = [self.answers[name] for name in merged.voters]
        return RoundResult(
            index=self.index,
            before=self.current.digest,
            after=run.store(merged.adapter),
            moments=tuple(run.store(moment) for moment in merged.moments),
            voters=merged.voters,
            abstained=merged.abstained,
            excluded=self.excluded,
            absent=tuple(sorted({*self.expected} - named)),
            stats={client: answer.stats for client, answer in self.answers.items()},
            bytes_down=travelling.nbytes * (len(self.asked) - revoked),
            bytes_up=self._bytes_up(travelling, merged),
            seconds=0.0,
            drift=drift_of(self.current, merged.adapter, votes, merged.blocks) if votes else None,
            gate=self.gate,
            late=tuple(one.late for one in counted if one.late),
            blocks=dict(merged.blocks),
            regions=merged.regions,
        )

    def _bytes_up(self, travelling: AdapterSpec, merged: Merged) -> int:
        """Bytes of the votes that count, and of the sums of regions among them."""
        sums = {one.region: one.bytes_up for one in merged.regions}
        return sum(sums.get(name) or self._sent(travelling, name) for name in merged.voters)

    def _sent(self, travelling: AdapterSpec, voter: str) -> int:
        """Bytes of the vote; in a secure sum all are equally long."""
        if self.run.config.aggregate.secure:
            return travelling.nbytes
        return narrowed(travelling, self.decided.blocks.get(voter, ())).nbytes
