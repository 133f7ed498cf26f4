"""Decide whether bytes that arrived are the adapter they should be; reject them whole if not.

Nothing of what arrives is interpreted: the length and the header must equal what the agreed spec
implies, and the numbers must be finite and within the norm bounds. No pickle, no config, no names.
The server reads replies and a client reads the global adapter with this one parser.
"""

from collections.abc import Callable
from math import isfinite, sqrt
from mmap import mmap

import numpy as np

from fedse.aggregate.norms import rough_square, squared_norm
from fedse.config.aggregation import AggregateSection
from fedse.config.schema import Config
from fedse.errors import AdapterRejected
from fedse.types import Adapter, AdapterSpec

Payload = bytes | mmap
"""An adapter as a safetensors file: in memory, or a mapped file that nobody may write to."""

# Beyond this a merge with a long step could leave the range of float32 (3.4e38).
LARGEST_NORM = 1e30
# Share of the bound the global adapter may fill; the rest is for the update of a sound reply.
FILLED = 0.5


def parse_adapter(data: Payload, spec: AdapterSpec, limits: AggregateSection) -> Adapter:
    """The adapter in `data`, equal to the spec in every respect; anything else is rejected.

    The numbers stay where they are in `data`, which therefore must be immutable.
    """
    require_layout(data, spec)
    adapter = Adapter(spec, np.frombuffer(data, dtype="<f4", offset=len(spec.header)))
    require_bounded(adapter, max_norm=limits.max_norm)
    return adapter


def require_layout(data: Payload, spec: AdapterSpec) -> None:
    """Length and header are those that the spec implies."""
    if type(data) not in (bytes, mmap):
        raise AdapterRejected("the adapter is not bytes")
    if len(data) != spec.nbytes:
        raise AdapterRejected(f"adapter of {len(data)} bytes, expected {spec.nbytes}")
    start = len(spec.header)
    if data[:start] != spec.header:
        raise AdapterRejected("adapter header differs from the agreed spec")


def load_checked(read: Callable[[], Payload], spec: AdapterSpec) -> Adapter:
    """The adapter in bytes that `parse_adapter` has accepted already; nothing is checked again."""
    return Adapter(spec, np.frombuffer(read(), dtype="<f4", offset=len(spec.header)))


def require_bounded(adapter: Adapter, *, max_norm: float) -> None:
    """A and B are finite and each no longer than `max_norm`.

    The two are bounded apart because (cA, B/c) is the same model but ruins a mean of factors.
    """
    bound = min(max_norm, LARGEST_NORM)
    # Both together are far below the bound in almost every reply, which float32 can tell.
    if rough_square(adapter.vector) < 0.9 * bound**2 - 1e-20:
        return
    for factor, norm in _factor_norms(adapter).items():
        if not isfinite(norm):
            raise AdapterRejected(f"factor {factor} holds a number that is not finite")
        if norm > bound:
            raise AdapterRejected(f"factor {factor} has norm {norm:.8g}, allowed is {bound:.8g}")


def shrink_to_bound(adapter: Adapter, *, max_norm: float) -> Adapter:
    """`adapter` itself if both factors leave room in the bound, else with the longer one cut down.

    A step beyond the mean of sound replies can leave the bound. Such an adapter would be refused
    by every client, and one at the bound would get sound replies to it rejected.
    """
    bound = min(max_norm, LARGEST_NORM) * FILLED
    scales = {f: bound / norm for f, norm in _factor_norms(adapter).items() if norm > bound}
    if not scales:
        return adapter
    vector = adapter.vector.copy()
    for name, part in adapter.spec.slices.items():
        vector[part] *= np.float32(scales.get(factor_of(name), 1.0))
    return Adapter(adapter.spec, vector)


def cap_lessons(lessons: int, config: Config, *, round: int) -> int:
    """The number of lessons a client may claim as a weight: what this experiment can have brought.

    A site may have more from earlier experiments; only this many count.
    """
    return min(lessons, config.buffer.demonstrations + config.rollout.episodes * round)


def _factor_norms(adapter: Adapter) -> dict[str, float]:
    """The length of all A and of all B; not finite exactly if one of the numbers is not."""
    squares = {"A": 0.0, "B": 0.0}
    # A signalling NaN is reported by the processor; here it is found by its result.
    with np.errstate(invalid="ignore"):
        for name, tensor in adapter.tensors().items():
            squares[factor_of(name)] += squared_norm(tensor.reshape(-1))
    return {factor: sqrt(square) for factor, square in squares.items()}


def factor_of(name: str) -> str:
    """A or B: the factor that the tensor of this name belongs to."""
    return "A" if ".lora_A." in name else "B"
