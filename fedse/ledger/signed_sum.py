"""A region's line about its sum: signed by the region, checked by the coordinator above it."""

import hashlib

from fedse.errors import WireError
from fedse.ledger.chain import Entry, sealed_by
from fedse.ledger.entries import SummedEntry
from fedse.ledger.writing import Ledger
from fedse.types import Record


class SumAsked(Record):
    """Which votes a region is asked to add up."""

    experiment: str
    round: int
    request: str
    """Digest of the question that the votes answer."""
    voters: tuple[str, ...]
    """In sorted order."""
    bound: float | None
    """The length that no update may exceed; None = any."""


def sign_sum(ledger: Ledger, asked: SumAsked, total: bytes) -> Entry:
    """The signed line of the region's ledger that says `total` is the sum that was asked for."""
    return ledger.append("summed", _line(asked, total).model_dump(mode="json"))


def require_signed_sum(said: Entry | None, asked: SumAsked, total: bytes, *, key: str) -> None:
    """`said` is about `total` and this question, and signed with `key`; else a WireError."""
    if said is None or said.kind != "summed":
        raise WireError("the region sent no signed line about its sum")
    if not sealed_by(said, key):
        raise WireError(f"the region's line is not signed with its key {key[:12]}")
    if said.facts != _line(asked, total).model_dump(mode="json"):
        raise WireError("the region signed another sum than the one that was asked for")


def _line(asked: SumAsked, total: bytes) -> SummedEntry:
    digest = hashlib.sha256(total).hexdigest()
    return SummedEntry(**asked.model_dump(), sum=digest, bytes_up=len(total))
