"""The stages of a round, and the one place where a round is put together from them.

A stage is a function from an open round to an open round: it asks, checks, merges or decides, and
what it found is there for those after it. A new concern is a new stage and its line in `stages_of`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fedse.aggregate.validate import shrink_to_bound
from fedse.config.requirements import require_installed
from fedse.config.schema import Config
from fedse.drivers.collecting import announce, collect_keys, collect_votes
from fedse.drivers.gating import gate
from fedse.drivers.late_votes import join_late
from fedse.drivers.merging import merge_votes
from fedse.drivers.regions import collect_with_regions, merge_with_regions
from fedse.drivers.round import OpenRound
from fedse.errors import ConfigError
from fedse.method.site import Merged
from fedse.protocol import Delivery
from fedse.store.run import Run
from fedse.types import ClientStats

Stage = Callable[[OpenRound], OpenRound]


def stages_of(config: Config) -> tuple[Stage, ...]:
    """What a round of an experiment with these settings does, in this order."""
    decide = gate if config.gate.episodes else accept
    collect: Stage = collect_votes
    merge: Stage = merge_votes
    if config.aggregate.secure:
        # Optional packages are imported only where they are really needed.
        from fedse.drivers.from_sum import mean_of, stepped
        from fedse.drivers.secure_merge import in_secret

        collect, merge = collect_keys, in_secret(stepped if config.step.on else mean_of)
    if config.aggregate.regions:
        collect, merge = collect_with_regions, merge_with_regions
    joined = (join_late,) if config.aggregate.late else ()
    return (quarantine, collect, *joined, merge, bound, decide, record_evaluations)


def introduce(config: Config, run: Path, homes: Mapping[str, Path]) -> None:
    """The sites of this machine, each in its folder, have what rounds with each other need."""
    if config.aggregate.regions:
        raise ConfigError(
            "aggregate.regions: a region is a federation of its own, and this run has only sites",
            hint="leave it out, and name the sites; any division into regions has the same result",
        )
    if config.aggregate.secure:
        require_installed(config)
        from fedse.drivers.secure_merge import introduce_members

        introduce_members(run, homes)


def quarantine(r: OpenRound) -> OpenRound:
    """Sites that are asked nothing are known, also those in quarantine, each with its reason."""
    out = {**r.out, **r.quarantined}
    for fault in out.values():
        announce(r, Delivery(fault.client, ClientStats(), exclusion=fault))
    return replace(r, out=out, faults=(*out.values(), *r.faults))


def bound(r: OpenRound) -> OpenRound:
    """Whatever is merged is within the bounds that the next round checks."""
    most, merge = r.run.config.aggregate.max_norm, r.merge

    def within(out: frozenset[str]) -> Merged:
        merged = merge(out)
        return merged._replace(adapter=shrink_to_bound(merged.adapter, max_norm=most))

    return replace(r, merge=within)


def accept(r: OpenRound) -> OpenRound:
    """All votes count."""
    return replace(r, merged=r.merge(frozenset()))


def record_evaluations(r: OpenRound) -> OpenRound:
    """How the sites did with the adapter of the round before, but not from rejected replies."""
    rejected = {one.client for one in r.decided.excluded}
    for one in r.decided.excluded:
        r.run.emit(
            "answer.excluded", round=r.index, client=one.client, kind=one.kind, reason=one.text
        )
    for client, answer in r.answers.items():
        if client not in rejected:
            record_evaluation(r.run, r.index - 1, client, answer.stats)
    return r


def record_evaluation(run: Run, round: int, client: str, stats: ClientStats) -> None:
    """What a site counted with the adapter after `round` is on record, if it counted anything."""
    if not stats.eval_played:
        return
    run.record_eval(round, client, stats)
    won = stats.eval_succeeded
    run.emit("eval.recorded", round=round, client=client, played=stats.eval_played, won=won)


def too_few(r: OpenRound) -> str:
    """How many valid replies, votes and abstentions, a round lacks; empty = there are enough."""
    valid = len(r.decided.voters) + len(r.decided.abstained)
    needed = r.run.config.aggregate.min_clients
    if valid >= needed:
        return ""
    first = f"; {r.excluded[0].client}: {r.excluded[0].text}" if r.excluded else ""
    return f"{valid} valid answers, aggregate.min_clients is {needed}{first}"
