"""The coordinator above the regions: asks them, checks what they say and merges their sums.

Towards the round loop it is what every driver is, so quarantine, gate, evaluations and ledger work
as with sites: a region passes its sites' numbers on by name. Only adapters stay below. A region
that fails, or whose sum is not what it must be, costs the round its sites' votes and nothing else.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

from fedse.aggregate.factors import request_bytes, travelling_spec
from fedse.aggregate.merge import WEIGHTS, clip_bound, shares_of
from fedse.aggregate.outer import outer_step
from fedse.aggregate.regional import merge_sums, parse_sum, require_sound_sum
from fedse.aggregate.validate import Payload, shrink_to_bound
from fedse.committed import Exclusion
from fedse.drivers.gathering import AskedRound, Gathered, announce, capped, inbox
from fedse.drivers.replies import ExpectedReply, exclusion_of
from fedse.errors import FedSEError, WireError
from fedse.ledger.chain import Entry, Ledger
from fedse.ledger.entries import RegionEntry
from fedse.method.site import Merged
from fedse.protocol import Ask, Delivery, Request, undelivered
from fedse.store.files import mapped, write_whole
from fedse.store.run import Run
from fedse.tree.messages import RegionAsk, RegionReply, SiteLine, SumWanted
from fedse.tree.settings import require_composable
from fedse.tree.verdicts import checked_lines, checked_total
from fedse.types import Adapter, ClientStats, Clock

SUMS_AT_ONCE = 4
"""A sum has several times the bytes of an adapter, and is in memory until it is on disk."""

T = TypeVar("T")


class RegionLink(NamedTuple):
    """One region, as the coordinator above knows it."""

    name: str
    members: tuple[str, ...]
    key: str
    """Its public key, agreed on beforehand."""
    ask: Callable[[RegionAsk, bytes], RegionReply]


class Voter(NamedTuple):
    """A site whose vote its region holds."""

    region: str
    length: float
    lessons: int


class Told(NamedTuple):
    """What the regions said about their sites."""

    stats: dict[str, ClientStats]
    voters: dict[str, Voter]
    faults: list[Exclusion]


class RegionTotal(NamedTuple):
    """A region's sum, checked, on disk."""

    read: Callable[[], Payload]
    entry: Entry
    """The region's own line about it."""
    nbytes: int


class Regions:
    """The regions of a run; as an `Ask` it gives what they tell about each of their sites."""

    def __init__(self, run: Run, links: Sequence[RegionLink], *, clock: Clock) -> None:
        require_composable(run.config)
        self._run, self._clock = run, clock
        self._links = {link.name: link for link in links}
        self._ledger: Ledger | None = None
        self._received = 0
        """Bytes of sums in the round that is under way."""

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        for delivery, _ in self._tell(request, adapter, skip):
            yield delivery

    def gather(self, run: Run, ask: Ask, asked: AskedRound) -> Gathered:
        """Every region has asked its sites, and holds the votes of those that have one."""
        self._received = 0
        expected = ExpectedReply(asked.current, run.spec)
        told = Told({}, {}, [])
        for delivery, voter in self._tell(asked.request, asked.current, asked.skip):
            exclusion = delivery.exclusion or exclusion_of(
                run.config, delivery, told.stats, expected
            )
            announce(run, asked.round, delivery._replace(exclusion=exclusion))
            if exclusion:
                told.faults.append(exclusion)
                continue
            told.stats[delivery.client] = delivery.stats
            if voter is not None:
                told.voters[delivery.client] = voter
        return Gathered(
            stats={client: told.stats[client] for client in sorted(told.stats)},
            faults=told.faults,
            merge=partial(self._merge_without, asked, told),
            drift=lambda merged: None,
            bytes_down=travelling_spec(run.spec, run.config).nbytes * len(self._links),
            bytes_up=lambda merged: self._received,
        )

    def _tell(
        self, request: Request, adapter: Adapter, skip: Collection[str]
    ) -> Iterator[tuple[Delivery, Voter | None]]:
        data = request_bytes(adapter, self._run.config)

        def ask(link: RegionLink) -> tuple[SiteLine, ...] | str:
            out = tuple(sorted(set(skip) & set(link.members)))
            asked = RegionAsk(region=link.name, request=request, skip=out)
            try:
                reply = _served(link.ask(asked, data))
                return checked_lines(reply, asked, link.members, link.key, self._run.config)
            except FedSEError as error:
                return str(error)

        links = list(self._links.values())
        for link, lines in _at_once(ask, links, most=len(links)):
            if isinstance(lines, str):
                for client in sorted(set(link.members) - set(skip)):
                    yield undelivered(client, "failed", f"its region {link.name}: {lines}"), None
                continue
            for line in lines:
                yield self._heard(link, line, request.round)

    def _heard(self, link: RegionLink, line: SiteLine, round: int) -> tuple[Delivery, Voter | None]:
        delivery = Delivery(line.client, line.stats, None, line.exclusion)
        if not line.votes:
            return delivery, None
        lessons = capped(line.stats, self._run, round=round).buffered
        return delivery, Voter(link.name, line.length or 0.0, lessons)

    def _merge_without(self, asked: AskedRound, told: Told, out: frozenset[str]) -> Merged:
        """As one server would merge the same votes; a region that fails now is left out."""
        run, settings = self._run, self._run.config.aggregate
        lost: dict[str, Exclusion] = {}
        while True:
            kept = {c: v for c, v in told.voters.items() if c not in out and c not in lost}
            voters = sorted(kept)
            norms = [kept[client].length for client in voters]
            bound = clip_bound(norms, settings) if voters else None
            sums, failed = self._sums(asked, kept, bound)
            if not failed:
                break
            lost |= failed
        weights = [WEIGHTS[settings.type](kept[client].lessons) for client in voters]
        shares = shares_of(norms, weights, settings) if voters else []
        merged = merge_sums(asked.current, sums, shares, settings)
        stepped = outer_step(asked.current, merged, run.moments(asked.round - 1), settings)
        return Merged(
            shrink_to_bound(stepped.adapter, max_norm=settings.max_norm),
            stepped.moments,
            voters=tuple(voters),
            abstained=tuple(sorted(set(told.stats) - set(told.voters) - out)),
            excluded=tuple(lost[client] for client in sorted(lost)),
        )

    def _sums(
        self, asked: AskedRound, kept: Mapping[str, Voter], bound: float | None
    ) -> tuple[list[Callable[[], Payload]], dict[str, Exclusion]]:
        """The sums of the regions, and the voters of regions that have none."""
        by_region: dict[str, list[str]] = {}
        for client in sorted(kept):
            by_region.setdefault(kept[client].region, []).append(client)
        links = [self._links[region] for region in sorted(by_region)]

        def ask(link: RegionLink) -> RegionTotal | str:
            wanted = SumWanted(voters=tuple(by_region[link.name]), bound=bound)
            weigh = WEIGHTS[self._run.config.aggregate.type]
            weight = sum(weigh(kept[client].lessons) for client in wanted.voters)
            try:
                return self._total(link, asked, wanted, weight)
            except FedSEError as error:
                return str(error)

        sums: list[Callable[[], Payload]] = []
        failed: dict[str, Exclusion] = {}
        for link, found in _at_once(ask, links, most=SUMS_AT_ONCE):
            if not isinstance(found, str):
                self._note(link, found)
                sums.append(found.read)
                continue
            reason = f"its region {link.name}: {found}"
            for client in by_region[link.name]:
                failed[client] = Exclusion(client=client, kind="failed", reason=reason)
        return sums, failed

    def _total(
        self, link: RegionLink, asked: AskedRound, wanted: SumWanted, weight: float
    ) -> RegionTotal:
        """The region's sum is on disk, signed and sound."""
        run, out = self._run, tuple(sorted(set(asked.skip) & set(link.members)))
        question = RegionAsk(region=link.name, request=asked.request, skip=out, wanted=wanted)
        # A region that still holds the votes needs no adapter to add them up.
        reply = link.ask(question, b"")
        if reply.fault:
            reply = link.ask(question, request_bytes(asked.current, run.config))
        entry = checked_total(_served(reply), question, link.key)
        planes, settings = parse_sum(reply.total, run.spec), run.config.aggregate
        require_sound_sum(
            planes, asked.current, weight=weight, bound=wanted.bound, settings=settings
        )
        kept = inbox(run) / f"sum-{entry.hash}"
        write_whole(kept, reply.total)
        return RegionTotal(partial(mapped, kept), entry, len(reply.total))

    def _note(self, link: RegionLink, total: RegionTotal) -> None:
        """The region's signed line about its sum is in our ledger."""
        if self._ledger is None:
            path = self._run.path
            # Kept open: opening a ledger verifies all of its lines.
            self._ledger = Ledger(path, role="server", name=path.name, clock=self._clock)
        line = RegionEntry(region=link.name, key=link.key, line=total.entry)
        self._ledger.append("region", line.model_dump(mode="json"))
        self._received += total.nbytes


def _served(reply: RegionReply) -> RegionReply:
    if reply.fault:
        raise WireError(f"it has no answer: {reply.fault.words}")
    return reply


def _at_once(
    ask: Callable[[RegionLink], T], links: Collection[RegionLink], *, most: int
) -> Iterator[tuple[RegionLink, T]]:
    """Each region with its answer, in the order of the links, `most` of them asked at a time."""
    with ThreadPoolExecutor(max(1, min(most, len(links)))) as threads:
        yield from zip(links, threads.map(ask, links), strict=True)
