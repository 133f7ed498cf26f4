"""Whether a region's answer is one to the question, signed by it, and about its own sites."""

import hashlib
from math import isfinite

from fedse.aggregate.merge import needs_lengths
from fedse.config.schema import Config
from fedse.errors import WireError, boundary
from fedse.ledger.chain import Entry, sealed_by
from fedse.ledger.entries import GatheredEntry, SummedEntry
from fedse.tree.messages import RegionAsk, RegionReply, SiteLine, digest_of_lines
from fedse.types import Record


def checked_lines(
    reply: RegionReply, asked: RegionAsk, members: tuple[str, ...], key: str, config: Config
) -> tuple[SiteLine, ...]:
    """What the region told of its sites, each at most once; anything else is a WireError."""
    lines, request = reply.lines, asked.request
    said = _said(reply, "gathered", key)
    with boundary(WireError, "its line about the round"):
        entry = GatheredEntry.model_validate(said.facts)
    found = (entry.experiment, entry.round, entry.request, entry.received)
    if found != (request.experiment, request.round, request.digest, request.adapter):
        raise WireError("it answered another question")
    if entry.told != digest_of_lines(lines):
        raise WireError("its signature is not of what it told")
    if entry.voters != tuple(line.client for line in lines if line.votes):
        raise WireError("it signed other voters than it told")
    own = set(members) - set(asked.skip)
    told = [line.client for line in lines]
    if len(set(told)) < len(told) or not set(told) <= own:
        raise WireError("it told of sites that are not its own, or twice of one")
    for line in lines:
        _require_consistent(line, request.train, config)
    return lines


def _require_consistent(line: SiteLine, train: bool, config: Config) -> None:
    """A vote has a length where lengths are needed, and who is excluded has no vote."""
    if line.exclusion and (line.votes or line.exclusion.client != line.client):
        raise WireError(f"it told of a vote of {line.client} and of its exclusion")
    if not line.votes:
        return
    if not train:
        raise WireError(f"it told of a vote of {line.client} where nobody was asked for one")
    known = line.length is not None and isfinite(line.length) and line.length >= 0
    if needs_lengths(config.aggregate) and not known:
        raise WireError(f"it told no length of the update of {line.client}")


def checked_total(reply: RegionReply, asked: RegionAsk, key: str) -> Entry:
    """The region's line about its sum, which is of exactly these votes under this bound."""
    request, wanted = asked.request, asked.wanted
    assert wanted is not None
    said = _said(reply, "summed", key)
    expected = SummedEntry(
        experiment=request.experiment,
        round=request.round,
        request=request.digest,
        voters=wanted.voters,
        bound=wanted.bound,
        sum=hashlib.sha256(reply.total).hexdigest(),
        bytes_up=len(reply.total),
    )
    _require_equal(said, expected)
    return said


def _require_equal(said: Entry, expected: Record) -> None:
    if said.facts != expected.model_dump(mode="json"):
        raise WireError("it signed another sum than the one that was asked for")


def _said(reply: RegionReply, kind: str, key: str) -> Entry:
    entry = reply.entry
    if entry is None or entry.kind != kind:
        raise WireError(f"it sent no signed line of kind {kind}")
    if not sealed_by(entry, key):
        raise WireError(f"its line is not signed with its key {key[:12]}")
    return entry
