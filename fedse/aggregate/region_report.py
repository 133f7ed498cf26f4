"""What a region says of its votes before it adds them up, and what it sends once it has.

A report has names, lengths and numbers of lessons, so that the coordinator above finds the bound at
which all updates are clipped. It travels in the place of an adapter, as JSON of these fields and no
others: there is none for text.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated

from pydantic import Field, ValidationError

from fedse.errors import AdapterRejected
from fedse.types import CLIENT_NAME, ClientStats, Record, canonical_json

HEAD = 4
"""Bytes that hold the length of the signed line before a sum."""

Public = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ReportedVote(Record):
    """One vote of a region, whose adapter stays there."""

    client: Annotated[str, Field(pattern=CLIENT_NAME)]
    length: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Euclidean length of its update; 0 where no setting asks for lengths."""
    lessons: Annotated[int, Field(ge=0)]


class RegionReport(Record):
    """The votes of a region in one round."""

    key: Public
    """With which the region signs its sum."""
    votes: tuple[ReportedVote, ...]
    """In the order of names."""

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(one.client for one in self.votes)


class SumRequest(Record):
    """Beside the question for a sum."""

    request: Public
    """Digest of the question that the votes answered."""
    bound: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    """The length that no update may exceed; None = any."""


def report_to_bytes(report: RegionReport) -> bytes:
    return canonical_json(report.model_dump(mode="json"))


def parse_report(data: bytes, *, most: int) -> RegionReport:
    """A report of at most so many votes; anything else is rejected, and nothing of it is quoted."""
    try:
        report = RegionReport.model_validate_json(data, strict=True)
    except ValidationError:
        raise AdapterRejected("what it says of its votes cannot be read") from None
    if len(report.votes) > most:
        raise AdapterRejected(
            f"tells of {len(report.votes)} votes, aggregate.regions allows it {most}"
        )
    if not all(one < other for one, other in pairwise(report.sites)):
        raise AdapterRejected("names a site twice, or not in the order of names")
    return report


def with_line(line: bytes, total: bytes) -> bytes:
    """A sum as it is sent: behind the signed line about it."""
    return len(line).to_bytes(HEAD, "little") + line + total


def without_line(data: bytes) -> tuple[bytes, bytes]:
    """The line and the sum that `with_line` put together."""
    end = HEAD + int.from_bytes(data[:HEAD], "little")
    return data[HEAD:end], data[end:]


def added_up(counted: Iterable[ClientStats]) -> ClientStats:
    """The numbers of several sites as those of one: sums, means of means, the longest time.

    How it goes for each role of an agent is not told above.
    """
    every = list(counted)
    found: dict[str, float | None] = {}
    for name, field in ClientStats.model_fields.items():
        if name == "roles":
            continue
        values = [getattr(one, name) for one in every if getattr(one, name) is not None]
        if field.annotation is int:
            found[name] = sum(values)
        elif values and name.endswith("seconds"):
            found[name] = max(values)
        elif values:
            found[name] = sum(values) / len(values)
    return ClientStats.model_validate(found)
