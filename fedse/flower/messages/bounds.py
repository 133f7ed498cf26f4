"""How large a reply can be: follows from the adapter, and from nothing that a site sends."""

from typing import NamedTuple

from fedse.config.schema import Config
from fedse.protocol import KINDS, Sizes
from fedse.types import AdapterSpec

# Beside the adapter: the numbers and Flower's own frames, measured below 8 kB.
SLACK_BYTES = 1 << 20
# A message, its records and arrays are objects too, and each 5 MB of an array.
SLACK_OBJECTS, OBJECT_BYTES = 64, 1 << 20


class ReplyBounds(NamedTuple):
    """What no valid reply exceeds."""

    objects: int
    """Flower sends a message as a tree of objects."""
    bytes: int


def reply_bounds(adapter_bytes: int) -> ReplyBounds:
    """For replies with adapters of this size."""
    objects = SLACK_OBJECTS + adapter_bytes // OBJECT_BYTES
    return ReplyBounds(objects, adapter_bytes + SLACK_BYTES)


def largest_reply(config: Config, spec: AdapterSpec) -> int:
    """Bytes of an adapter, or of a region's sum where there are regions."""
    if not config.aggregate.regions:
        return spec.nbytes
    return KINDS["sum"].up(Sizes(spec.nbytes, len(config.clients)))
