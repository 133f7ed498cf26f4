"""What a site's answer takes of its disk."""

from pathlib import Path

from fedse.store.space import SPARE_BYTES, Need
from fedse.types import AdapterSpec

# An answer is in the database and, until that is written over, in its log; so are the moments.
ANSWER_ADAPTERS = 4


def room_needed(home: Path, spec: AdapterSpec) -> Need:
    """What must be free in `home` before a round is worked on, at the least."""
    return Need(home, ANSWER_ADAPTERS * spec.nbytes + SPARE_BYTES, "an answer")
