"""What a region makes of its sites' answers: votes that it can add up, or their sum in secret."""

from dataclasses import replace
from functools import partial

from fedse.aggregate.factors import learned_part, travelling_spec
from fedse.aggregate.merge import Vote, checked_vote
from fedse.aggregate.region_report import ReportedVote
from fedse.aggregate.regional import learned_planes, regional_sum, sum_to_bytes
from fedse.aggregate.validate import cap_lessons, load_checked, parse_adapter
from fedse.committed import Exclusion, RoundResult
from fedse.drivers.collecting import collect_keys, collect_votes, inbox
from fedse.drivers.round import OpenRound
from fedse.drivers.stages import accept, quarantine, record_evaluations
from fedse.errors import AdapterRejected, WireError
from fedse.method.site import Merged
from fedse.protocol import SENT_PLANES
from fedse.store.files import mapped, write_durably


def ask_sites(r: OpenRound) -> tuple[OpenRound, tuple[ReportedVote, ...]]:
    """The round with every vote on disk, or their sum, and what is told of them above.

    It comes to the adapter it began with: what it leads to is decided above.
    """
    if r.run.config.aggregate.secure:
        asked, votes = _in_secret(collect_keys(quarantine(r)))
    else:
        asked, votes = _one_by_one(collect_votes(quarantine(r)))
    return record_evaluations(asked), votes


def sum_of(r: OpenRound, votes: tuple[ReportedVote, ...], bound: float | None) -> bytes:
    """The sum of these votes of the round, each clipped at `bound`."""
    settings = r.run.config.aggregate
    if settings.secure:
        return (inbox(r.run) / f"{r.index}.total").read_bytes()
    kept = [_kept_vote(r, one) for one in votes]
    planes = regional_sum(r.current, kept, bound=bound, settings=settings)
    if len(planes) > SENT_PLANES:
        raise WireError(f"the sum has {len(planes)} planes, at most {SENT_PLANES} are sent")
    spec, config = r.run.spec, r.run.config
    return sum_to_bytes(learned_planes(planes, spec, travelling_spec(spec, config)))


def unheard(r: OpenRound) -> RoundResult:
    """The result of a round in which nobody here was asked."""
    nobody = Merged(r.current, (), (), (), ())
    return accept(_deciding(r, nobody)).result().model_copy(update={"bytes_down": 0})


def _one_by_one(r: OpenRound) -> tuple[OpenRound, tuple[ReportedVote, ...]]:
    votes, excluded = list[ReportedVote](), list[Exclusion]()
    for client, stats, read, *_ in r.answers.values():
        if read is None:
            continue
        lessons = _lessons(r, stats.buffered)
        try:
            one = checked_vote(client, read, lessons, r.current, r.run.config.aggregate)
        except AdapterRejected as rejection:
            excluded.append(Exclusion(client=client, kind="rejected", reason=str(rejection)))
        else:
            length = one.length or 0.0
            votes.append(ReportedVote(client=client, length=length, lessons=lessons))
    silent = tuple(client for client, one in r.answers.items() if one.read is None)
    voters = tuple(vote.client for vote in votes)
    merged = Merged(r.current, (), voters, silent, tuple(excluded))
    return accept(_deciding(r, merged)), tuple(votes)


def _in_secret(r: OpenRound) -> tuple[OpenRound, tuple[ReportedVote, ...]]:
    # Optional packages are imported only where they are really needed.
    from fedse.drivers.secure_merge import Moved, in_secret
    from fedse.secure_sum.combine import SumPlan
    from fedse.secure_sum.fixed_point import Whole, require_bounded_mean
    from fedse.secure_sum.messages import masked_to_bytes
    from fedse.types import AdapterSpec

    def keep(r: OpenRound, total: Whole, plan: SumPlan, part: AdapterSpec) -> Moved:
        require_bounded_mean(total, plan.terms.form, count=len(plan.survivors))
        write_durably(inbox(r.run) / f"{r.index}.total", masked_to_bytes(total))
        return Moved(learned_part(r.current, part))

    r = accept(in_secret(keep)(r))
    told = {name: _lessons(r, r.answers[name].stats.buffered) for name in r.decided.voters}
    votes = (ReportedVote(client=name, length=0.0, lessons=told[name]) for name in sorted(told))
    return r, tuple(votes)


def _kept_vote(r: OpenRound, told: ReportedVote) -> Vote:
    """The vote as it was checked and measured."""
    read = partial(mapped, inbox(r.run) / f"{r.index}-{told.client}")
    parse_adapter(read(), r.run.spec, r.run.config.aggregate)
    load = partial(load_checked, read, r.run.spec)
    return Vote(told.client, load, told.lessons, told.length)


def _lessons(r: OpenRound, claimed: int) -> int:
    return cap_lessons(claimed, r.run.config, round=r.index)


def _deciding(r: OpenRound, merged: Merged) -> OpenRound:
    return replace(r, merge=lambda out: merged)
