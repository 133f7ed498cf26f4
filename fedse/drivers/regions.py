"""A round with members that are regions: they tell of their votes, then send one sum each.

A region keeps its sites' adapters. First it tells how long their updates are, from which the bound
for all follows; then it is asked for the exact sum at that bound, which it signs. A region whose
sum cannot be used is left out with all of its votes, and the round is the one without it: if that
changes the bound, the others are asked once more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from fedse.aggregate.factors import request_bytes
from fedse.aggregate.merge import (
    WEIGHTS,
    Vote,
    VoteShare,
    checked_vote,
    clip_bound,
    shares_of,
    update_norms,
    weight_of,
)
from fedse.aggregate.region_report import RegionReport, SumRequest, parse_report, without_line
from fedse.aggregate.regional import regional_sum, sum_to_bytes
from fedse.aggregate.validate import Payload, cap_lessons
from fedse.committed import Exclusion, RegionVotes
from fedse.drivers.collecting import (
    collect,
    inbox,
    keep_small,
    training_question,
    vote_rules,
)
from fedse.drivers.region_sums import adapter_of, usable_sum
from fedse.drivers.round import OpenRound
from fedse.errors import AdapterRejected, WireError
from fedse.ledger.chain import Entry, read_line
from fedse.ledger.entries import SummedEntry
from fedse.ledger.signed_sum import SumAsked, require_signed_sum
from fedse.method.site import Answer, Merged
from fedse.protocol import Delivery
from fedse.store.files import mapped, write_durably
from fedse.store.run import Run
from fedse.types import canonical_json

LOST = "left before its sum arrived"


@dataclass(frozen=True)
class HeldSum:
    """A region's sum that can be used."""

    read: Callable[[], Payload]
    bound: float | None
    said: RegionVotes


def collect_with_regions(r: OpenRound) -> OpenRound:
    """Every vote of a site that can be used is on disk, and every region has told of its votes."""
    regions = r.run.config.aggregate.regions
    vote_misfit, hold = vote_rules(r)

    def misfit(client: str, data: bytes) -> str:
        if client not in regions:
            return vote_misfit(client, data)
        try:
            report = _report(r, client, data)
        except AdapterRejected as rejection:
            return str(rejection)
        known = pinned_key(r.run, client)
        return "" if known in ("", report.key) else "signs with another key than in earlier rounds"

    def keep(delivery: Delivery) -> Answer:
        return keep_small(delivery) if delivery.client in regions else hold(delivery)

    return collect(r, misfit, keep)


def merge_with_regions(r: OpenRound) -> OpenRound:
    """The sums of the regions and the votes of the other members can be merged, all or none."""
    merged = cache(lambda: _merge(r))
    return replace(r, merge=lambda out: merged())  # no gate with it leaves votes out


def tell_regions(r: OpenRound) -> None:
    """Every region that could be reached knows the last adapter; others learn of it nowhere."""
    config = r.run.config
    if config.aggregate.regions and not config.eval.episodes:
        question = r.question("evaluate", r.current)
        for _ in r.ask(
            question, request_bytes(r.current, config), of=sorted(config.aggregate.regions)
        ):
            pass  # who is away stays with the adapter it knows


def _merge(r: OpenRound) -> Merged:
    settings, regions = r.run.config.aggregate, r.run.config.aggregate.regions
    voting = {client: one for client, one in r.answers.items() if one.read}
    votes, gone = _own_votes(r, [one for client, one in voting.items() if client not in regions])
    reports = {
        client: _report(r, client, bytes(one.read()))
        for client, one in voting.items()
        if client in regions and one.read
    }
    sums: dict[str, HeldSum] = {}
    while True:
        shares = _shares(r, votes, reports)
        bound = clip_bound([share.norm for share in shares], settings) if shares else None
        asked = [name for name in reports if name not in sums or sums[name].bound != bound]
        if not asked:
            break
        found, lost = _sums(r, {name: reports[name] for name in asked}, bound)
        sums, gone = sums | found, gone | lost
        reports = {name: one for name, one in reports.items() if name not in lost}
    own = sum_to_bytes(regional_sum(r.current, votes, bound=bound, settings=settings))
    reads = [*([lambda: own] if votes else []), *(sums[name].read for name in reports)]
    return Merged(
        adapter_of(r, reads, shares),
        (),
        voters=tuple(sorted([*(vote.client for vote in votes), *reports])),
        abstained=tuple(sorted({*r.answers} - {*voting})),
        excluded=tuple(gone[name] for name in sorted(gone)),
        regions=tuple(sums[name].said for name in sorted(reports)),
    )


def _report(r: OpenRound, region: str, data: bytes) -> RegionReport:
    """What the region tells of its votes; rejected if that cannot be."""
    config = r.run.config
    report = parse_report(data, most=config.aggregate.regions[region])
    for one in report.votes:
        if one.lessons != cap_lessons(one.lessons, config, round=r.index):
            raise AdapterRejected("claims more lessons than this experiment can have brought")
    return report


def _own_votes(r: OpenRound, answers: Sequence[Answer]) -> tuple[list[Vote], dict[str, Exclusion]]:
    """The votes of members that are sites, as `server_round` takes them."""
    votes, gone = list[Vote](), dict[str, Exclusion]()
    for client, stats, read, *_ in answers:
        assert read, "only those with a vote are given"
        lessons = cap_lessons(stats.buffered, r.run.config, round=r.index)
        try:
            votes.append(checked_vote(client, read, lessons, r.current, r.run.config.aggregate))
        except AdapterRejected as rejection:
            gone[client] = Exclusion(client=client, kind="rejected", reason=str(rejection))
    return votes, gone


def _shares(
    r: OpenRound, votes: Sequence[Vote], reports: Mapping[str, RegionReport]
) -> list[VoteShare]:
    """What every vote counts, wherever it is; in the order of names."""
    settings = r.run.config.aggregate
    norms = update_norms(r.current, votes, settings)
    counted = [
        (vote.client, norm, weight_of(vote, settings.type))
        for vote, norm in zip(votes, norms, strict=True)
    ]
    for report in reports.values():
        weigh = WEIGHTS[settings.type]
        counted += [(one.client, one.length, weigh(one.lessons)) for one in report.votes]
    counted.sort()
    return shares_of([norm for _, norm, _ in counted], [w for _, _, w in counted], settings)


def _sums(
    r: OpenRound, reports: Mapping[str, RegionReport], bound: float | None
) -> tuple[dict[str, HeldSum], dict[str, Exclusion]]:
    """The sums of these regions at this bound, and why there is none of the others."""
    found, lost = dict[str, HeldSum](), dict[str, Exclusion]()
    request = SumRequest(request=training_question(r).digest, bound=bound)
    body = canonical_json(request.model_dump(mode="json"))
    for delivery in r.ask(r.question("sum", r.current), body, of=sorted(reports)):
        client, _, data, exclusion = delivery
        if client not in reports or client in found or client in lost:
            continue
        if exclusion or data is None:
            lost[client] = exclusion or Exclusion(client=client, kind="failed", reason=LOST)
            continue
        try:
            found[client] = _held(r, client, reports[client], request, data)
        except (AdapterRejected, WireError) as error:
            lost[client] = Exclusion(client=client, kind="rejected", reason=str(error))
    for client in {*reports} - {*found, *lost}:
        lost[client] = Exclusion(client=client, kind="failed", reason=LOST)
    r.run.emit("regions.summed", round=r.index, asked=len(reports), got=len(found))
    return found, lost


def _held(
    r: OpenRound, region: str, report: RegionReport, request: SumRequest, data: bytes
) -> HeldSum:
    """The sum is sound, signed and on disk, and so is the region's line about it."""
    line, total = without_line(data)
    said = read_line(line)
    asked = SumAsked(
        experiment=r.run.config.run.name,
        round=r.index,
        request=request.request,
        voters=report.sites,
        bound=request.bound,
    )
    require_signed_sum(said, asked, total, key=report.key)
    assert said, "a line that is missing was refused"
    whole = usable_sum(r, report, total, bound=request.bound)
    kept = inbox(r.run) / f"{r.index}-{region}.sum"
    kept.write_bytes(whole)
    _keep_line(r, region, said, key=report.key)
    told = SummedEntry.model_validate(said.facts)
    votes = RegionVotes(
        region=region, sites=told.voters, sum=told.sum, line=said.hash, bytes_up=len(data)
    )
    return HeldSum(partial(mapped, kept), request.bound, votes)


def pinned_key(run: Run, region: str) -> str:
    """The key with which the region signed its first sum; empty = there was none."""
    file = _folder(run) / f"{region}.pub"
    return file.read_text().strip() if file.is_file() else ""


def _keep_line(r: OpenRound, region: str, said: Entry, *, key: str) -> None:
    """What the region signed can be shown to others, and it signs with this key from now on."""
    folder = _folder(r.run)
    write_durably(folder / f"{r.index}-{region}.json", said.text + b"\n")
    if not pinned_key(r.run, region):
        write_durably(folder / f"{region}.pub", f"{key}\n".encode())


def _folder(run: Run) -> Path:
    folder = run.path / "regions"
    folder.mkdir(exist_ok=True)
    return folder
