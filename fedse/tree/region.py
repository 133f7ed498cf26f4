"""A region: a coordinator towards its sites, and a site towards the coordinator above it.

It checks its sites' replies as any coordinator does, keeps their adapters, and sends up who votes
and, when it is told the common bound, the exact sum of the votes. What it keeps of a round can be
gathered again: the sites answer from their outboxes. So a region that was killed loses nothing.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fedse.aggregate.factors import travelling_spec
from fedse.aggregate.merge import Vote, checked_vote
from fedse.aggregate.regional import regional_sum, sum_to_bytes
from fedse.aggregate.validate import cap_lessons
from fedse.committed import Exclusion
from fedse.config.schema import Config
from fedse.drivers.gathering import hold
from fedse.drivers.replies import ExpectedReply, exclusion_of
from fedse.errors import AdapterRejected, WireError
from fedse.ledger.chain import Ledger
from fedse.ledger.entries import GatheredEntry, SummedEntry, gathered_entries
from fedse.ledger.keys import require_signing
from fedse.protocol import Ask, Delivery
from fedse.site.serve import check_request
from fedse.tree.messages import RegionAsk, RegionReply, SiteLine, SumWanted, digest_of_lines
from fedse.tree.settings import regions_of, require_composable
from fedse.types import Adapter, AdapterSpec, Clock


class HeldVotes(NamedTuple):
    """The votes of the round that is under way."""

    request: str
    """Digest of the question they answer."""
    current: Adapter
    votes: Mapping[str, Vote]


class Region:
    """One region in its folder `home`; `ask` reaches its own sites and no others."""

    def __init__(
        self, name: str, config: Config, spec: AdapterSpec, ask: Ask, home: Path, *, clock: Clock
    ) -> None:
        require_composable(config)
        require_signing()
        self.name, self.config, self.spec = name, config, spec
        self.members = regions_of(config)[name]
        self._ask, self._inbox = ask, home / "inbox"
        self._inbox.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._ledger = Ledger(home, role="region", name=name, clock=clock)
        self._seen = {entry.received for entry in gathered_entries(self._ledger.read())}
        self._held: HeldVotes | None = None

    def answer(self, asked: RegionAsk, data: bytes) -> RegionReply:
        """What the region says to `asked`, signed; a question it did not agree to is an error.

        A sum of votes that are held needs no adapter beside it.
        """
        if asked.region != self.name:
            raise WireError(f"asked for region {asked.region!r}, expected {self.name!r}")
        if asked.wanted is None:
            return self._tell(asked, self._checked(asked, data))
        held = self._held
        if held is None or held.request != asked.request.digest:
            self._gather(asked, self._checked(asked, data))
        return self._total(asked, asked.wanted)

    def _checked(self, asked: RegionAsk, data: bytes) -> Adapter:
        return check_request(asked.request, data, self.config, self.spec)

    def _tell(self, asked: RegionAsk, current: Adapter) -> RegionReply:
        lines, request = self._gather(asked, current), asked.request
        entry = GatheredEntry(
            experiment=request.experiment,
            round=request.round,
            request=request.digest,
            received=request.adapter,
            voters=tuple(line.client for line in lines if line.votes),
            abstained=tuple(line.client for line in lines if not line.votes and not line.exclusion),
            excluded=tuple(line.exclusion for line in lines if line.exclusion),
            told=digest_of_lines(lines),
        )
        said = self._ledger.append("gathered", entry.model_dump(mode="json"))
        return RegionReply(lines=lines, entry=said)

    def _total(self, asked: RegionAsk, wanted: SumWanted) -> RegionReply:
        request, held = asked.request, self._held
        lacking = sorted(set(wanted.voters) - set(held.votes if held else ()))
        if held is None or lacking:
            raise WireError(f"asked for the votes of {', '.join(lacking)}, which are not held")
        votes = [held.votes[client] for client in sorted(wanted.voters)]
        settings = self.config.aggregate
        planes = regional_sum(held.current, votes, bound=wanted.bound, settings=settings)
        total = sum_to_bytes(planes)
        entry = SummedEntry(
            experiment=request.experiment,
            round=request.round,
            request=request.digest,
            voters=tuple(sorted(wanted.voters)),
            bound=wanted.bound,
            sum=hashlib.sha256(total).hexdigest(),
            bytes_up=len(total),
        )
        said = self._ledger.append("summed", entry.model_dump(mode="json"))
        return RegionReply(entry=said, total=total)

    def _gather(self, asked: RegionAsk, current: Adapter) -> tuple[SiteLine, ...]:
        """The sites were asked; their votes are held if this is a question of a round."""
        request, votes = asked.request, dict[str, Vote]()
        returned = travelling_spec(self.spec, self.config)
        expected = ExpectedReply(current, returned if request.train else self.spec)
        if request.train:
            self._forget_votes()
        lines: dict[str, SiteLine] = {}
        for delivery in self._ask(request, current, skip=asked.skip):
            if delivery.client in asked.skip or delivery.client not in self.members:
                continue
            exclusion = delivery.exclusion or exclusion_of(
                self.config, delivery, lines, expected, self._seen - {current.digest}
            )
            lines.setdefault(
                delivery.client, self._line(delivery, exclusion, request.round, expected, votes)
            )
        self._seen.add(current.digest)
        if request.train:
            self._held = HeldVotes(request.digest, current, votes)
        return tuple(lines[client] for client in sorted(lines))

    def _line(
        self,
        delivery: Delivery,
        exclusion: Exclusion | None,
        round: int,
        expected: ExpectedReply,
        votes: dict[str, Vote],
    ) -> SiteLine:
        """What goes up about a delivery; its vote is among `votes` if it has one."""
        client, stats = delivery.client, delivery.stats
        if exclusion:
            return SiteLine(client=client, stats=stats, exclusion=exclusion)
        read = hold(self._inbox, round, delivery, expected).read
        if read is None:
            return SiteLine(client=client, stats=stats)
        lessons = cap_lessons(stats.buffered, self.config, round=round)
        try:
            vote = checked_vote(client, read, lessons, expected.current, self.config.aggregate)
        except AdapterRejected as rejection:
            reason = Exclusion(client=client, kind="rejected", reason=str(rejection))
            return SiteLine(client=client, stats=stats, exclusion=reason)
        votes[client] = vote
        return SiteLine(client=client, stats=stats, votes=True, length=vote.length)

    def _forget_votes(self) -> None:
        self._held = None
        for kept in self._inbox.iterdir():
            kept.unlink()
