"""Updates as whole numbers modulo 2^32: their sum has the same bits in any order, masked or not.

An update is at most `bound` long (Euclidean); its owner shortens a longer one before anything
leaves. So no coordinate is larger than `bound`, and the number of binary places is the largest with
which the sum of all members stays below 2^31. Each coordinate is rounded once: the decoded mean is
within 2^-(places + 1) of the exact mean of the bounded updates. A number takes as many bytes as
the float32 it stands for.
"""

from math import frexp, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedse.aggregate.norms import CACHED, blocks, distance, squared_norm
from fedse.errors import AdapterRejected
from fedse.types import FloatVector

Whole = NDArray[np.uint32]
"""Numbers modulo 2^32."""

LARGEST = 2**31 - 1


class FixedPoint(NamedTuple):
    """How the updates of one federation are written as whole numbers; follows from what is agreed.

    Bound 8 and 10 members: 24 binary places, an error of at most 3e-8 in each coordinate.
    """

    bound: float
    """The longest update that is sent as it is."""
    members: int
    """The most updates that are ever added up."""

    @property
    def places(self) -> int:
        """Binary places; with one more, the sum of all members could leave the range."""
        # Less one, because rounding may add a half.
        return frexp((LARGEST // self.members - 1) / self.bound)[1] - 1

    @property
    def unit(self) -> float:
        """What the whole number 1 stands for."""
        return 2.0**-self.places


def encode(start: FloatVector, end: FloatVector, form: FixedPoint) -> Whole:
    """The update from `start` to `end`, shortened to the bound if longer, as whole numbers."""
    length = distance(start, end)
    if not isfinite(length):
        raise AdapterRejected("the update holds a number that is not finite, so it is not sent")
    scale = min(1.0, form.bound / length) if length else 1.0
    scale /= form.unit
    encoded = np.empty(start.size, dtype=np.uint32)
    for part in blocks(start.size, CACHED):
        step = end[part].astype(np.float64)
        step -= start[part]
        step *= scale
        np.rint(step, out=step)
        encoded[part] = step.astype(np.int32).view(np.uint32)
    return encoded


def decode(
    total: Whole, start: FloatVector, form: FixedPoint, *, count: int, step: float = 1.0
) -> FloatVector:
    """`start`, moved by `step` times the mean of the `count` updates whose sum is `total`."""
    end = np.empty(start.size, dtype=np.float32)
    for part in blocks(start.size, CACHED):
        move = total[part].view(np.int32).astype(np.float64)
        move *= form.unit * step / count
        move += start[part]
        end[part] = move
    return end


def require_bounded_mean(total: Whole, form: FixedPoint, *, count: int) -> None:
    """The mean is no longer than the bound, as that of bounded updates never is; or a rejection.

    It does not tell who sent a longer one: nobody knows.
    """
    # Exact up to 2^24 only, and one part in 2^24 is less than what rounding may add.
    rounded = total.view(np.int32).astype(np.float32)
    length = squared_norm(rounded) ** 0.5 * form.unit / count
    allowed = form.bound + form.unit * (total.size**0.5)
    if length > allowed * (1 + 2.0**-20):
        raise AdapterRejected(
            f"the mean of {count} updates has norm {length:.6g}, updates of members that keep to "
            f"the bound {form.bound:.6g} have none above {allowed:.6g}"
        )
