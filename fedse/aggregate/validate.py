"""Decide whether bytes that arrived are the adapter they should be; reject them whole if not.

Nothing of what arrives is interpreted: the length and the header must equal what the agreed spec
implies, and the numbers must be finite and within the norm bounds. No pickle, no config, no names.
"""

import numpy as np

from fedse.aggregate.norms import squared_norm
from fedse.config import Aggregate
from fedse.errors import AdapterRejected
from fedse.types import Adapter, AdapterSpec


def parse_adapter(data: bytes, spec: AdapterSpec, limits: Aggregate) -> Adapter:
    """The adapter in `data`, equal to the spec in every respect; anything else is rejected."""
    if len(data) != spec.nbytes:
        raise AdapterRejected(f"adapter of {len(data)} bytes, expected {spec.nbytes}")
    start = len(spec.header)
    if data[:start] != spec.header:
        raise AdapterRejected("adapter header differs from the agreed spec")
    adapter = Adapter(spec, np.frombuffer(data, dtype="<f4", offset=start))
    require_bounded(adapter, max_norm=limits.max_norm)
    return adapter


def require_bounded(adapter: Adapter, *, max_norm: float) -> None:
    """A and B are finite and each no longer than `max_norm`.

    The two are bounded apart because (cA, B/c) is the same model but ruins a mean of factors.
    """
    squares = {"A": 0.0, "B": 0.0}
    for name, tensor in adapter.tensors().items():
        factor = "A" if ".lora_A." in name else "B"
        squares[factor] += squared_norm(tensor.reshape(-1))
    for factor, square in squares.items():
        # A NaN or an infinity anywhere makes the sum non-finite, so this one test finds both.
        if not np.isfinite(square):
            raise AdapterRejected(f"factor {factor} holds a number that is not finite")
        if square > max_norm**2:
            raise AdapterRejected(
                f"factor {factor} has norm {square**0.5:.4g}, allowed is {max_norm:.4g}"
            )
