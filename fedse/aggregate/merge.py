"""Client adapters in, next global adapter out: pure numpy, never a weight from a client.

Votes are summed in float64 in the order of client names, so the order of arrival changes no bit.
One client's adapter is in memory at a time, however many clients there are.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedse.types import Adapter, FloatVector

Clip = Literal["none", "median"]


class Vote(NamedTuple):
    """One client's validated adapter, fetched when it is needed."""

    client: str
    load: Callable[[], Adapter]


class Aggregate(Protocol):
    """How variants are called; they live in AGGREGATES."""

    def __call__(self, current: Adapter, votes: Sequence[Vote], *, clip: Clip) -> Adapter: ...


def mean(current: Adapter, votes: Sequence[Vote], *, clip: Clip) -> Adapter:
    """The unweighted element-wise mean of the factors: phi(t) = (1/K) sum_k phi_k(t).

    Nobody voted: `current` itself. With clip = "median" an update longer than the median one is
    first shortened to it, which is ours and not the paper's (docs/adr/0006).
    """
    if not votes:
        return current
    ordered = sorted(votes, key=lambda vote: vote.client)
    scales = _clip_scales(current, ordered) if clip == "median" else [1.0] * len(ordered)
    total: NDArray[np.float64] = np.zeros(current.spec.size)
    for vote, scale in zip(ordered, scales, strict=True):
        total += _shortened(current.vector, vote.load().vector, scale)
    total /= len(ordered)
    return Adapter(current.spec, total.astype(np.float32))


def _clip_scales(current: Adapter, votes: Sequence[Vote]) -> list[float]:
    norms = [_distance(current.vector, vote.load().vector) for vote in votes]
    # The lower median is one of the norms, so for one or two clients the bound is a real update.
    bound = sorted(norms)[(len(norms) - 1) // 2]
    return [1.0 if norm <= bound else bound / norm for norm in norms]


def _distance(here: FloatVector, there: FloatVector) -> float:
    step = there.astype(np.float64)
    step -= here
    return float(np.sqrt(np.dot(step, step)))


def _shortened(
    here: FloatVector, there: FloatVector, scale: float
) -> FloatVector | NDArray[np.float64]:
    if scale == 1.0:
        return there
    step = there.astype(np.float64)
    step -= here
    step *= scale
    step += here
    return step


AGGREGATES: Mapping[str, Aggregate] = {"mean": mean}
