"""What members and server send each other in a sum, as bytes, and how it is read.

Bytes that are not exactly such a message are a WireError that quotes nothing of them.
"""

from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field, ValidationError

from fedse.errors import WireError
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.roster import Confirmation, Name
from fedse.types import Record, canonical_json

Share = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
# Two shares and the tag of AES-GCM.
SealedShares = Annotated[str, Field(pattern=r"^[0-9a-f]{96}$")]
MessageT = TypeVar("MessageT", bound=Record)


class SealedBundle(Record):
    """Shares of a member's two secrets, sealed for each other member."""

    to: dict[Name, SealedShares]


class ShareMail(Record):
    """All bundles that arrived, by sender; each member opens what is for it."""

    bundles: dict[Name, SealedBundle]


class Survivors(Record):
    """Whose masked updates arrived."""

    names: tuple[Name, ...]


class Confirmations(Record):
    """Enough members' signatures over one list of survivors."""

    given: tuple[Confirmation, ...]


class Revealed(Record):
    """Of each member one share: of its self mask's seed, or of its mask key's, never of both."""

    self_seeds: dict[Name, Share]
    """Of those whose update is in the sum."""
    mask_seeds: dict[Name, Share]
    """Of those who dropped out after they had sent shares."""


def to_bytes(message: Record) -> bytes:
    return canonical_json(message.model_dump(mode="json"))


def from_bytes(kind: type[MessageT], data: bytes) -> MessageT:
    """The message in `data`, and nothing else."""
    try:
        read = kind.model_validate_json(data)
    except ValidationError:
        raise WireError(f"the message is not a {kind.__name__}") from None
    if to_bytes(read) != data:
        raise WireError(f"the message is a {kind.__name__} in an unusual form")
    return read


def masked_to_bytes(numbers: Whole) -> bytes:
    return numbers.astype("<u4", copy=False).tobytes()


def masked_from_bytes(data: bytes, size: int) -> Whole:
    if len(data) != 4 * size:
        raise WireError(f"a masked update of {len(data)} bytes, expected {4 * size}")
    return np.frombuffer(data, dtype="<u4")
