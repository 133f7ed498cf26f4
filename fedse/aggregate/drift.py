"""How far clients pull apart, and what averaging factors instead of products changes.

mean(BA) - mean(B) mean(A) is the covariance of the factors: the mean of (B_k - mean(B)) (A_k -
mean(A)). For few voters the squared norm of such a mean needs only small products, as ||U V||^2 =
sum(U'U * VV'). They grow with the square of the number of voters, so from where the whole layer is
smaller it is that which is formed. Adapters are read one at a time, for some layers at once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import sqrt
from typing import NamedTuple

import numpy as np

from fedse.aggregate.norms import Wide, distance, update_product
from fedse.aggregate.parts import parts_of
from fedse.committed import Drift
from fedse.types import Adapter, AdapterSpec, FloatVector

Load = Callable[[], Adapter]
HELD = 8 << 20
"""Numbers in float64 (64 MB) of all voters' layers that are held at once, unless one has more."""


def drift_of(
    current: Adapter,
    merged: Adapter,
    votes: Mapping[str, Load],
    blocks: Mapping[str, Collection[str]] | None = None,
) -> Drift:
    """Length and direction of every voter's update, and the error of merging factors.

    `blocks` are those that each vote is on; beside them it changes nothing, and in the direction
    it is compared with all that was merged.
    """
    start, end = current.vector, merged.vector
    moved = distance(start, end)
    length, cosine = {}, {}
    for client, load in votes.items():
        vote = load().vector
        length[client] = distance(start, vote)
        cosine[client] = _cosine(start, end, vote, moved * length[client])
    layers = _layers_of(votes, current.spec, blocks or {})
    return Drift(length=length, cosine=cosine, merge_error=_error_in(layers))


def _layers_of(
    votes: Mapping[str, Load], spec: AdapterSpec, blocks: Mapping[str, Collection[str]]
) -> Iterator["StackedLayer"]:
    """The layers of each block, of the votes that are on it."""
    if not spec.blocks:
        yield from _stacked_layers([*votes.values()], spec)
        return
    for part in parts_of(spec):
        voted = [partial(part.read, load) for c, load in votes.items() if part.is_in(blocks.get(c))]
        if voted:
            yield from _stacked_layers(voted, part.spec)


def _error_in(layers: Iterable["StackedLayer"]) -> float:
    """||mean(BA) - mean(B) mean(A)|| / ||mean(BA)|| over all layers; 0 where all products are 0."""
    off, whole = 0.0, 0.0
    for layer in layers:
        away, mean = _squares(layer)
        off, whole = off + away, whole + mean
    return sqrt(max(off, 0.0) / whole) if whole else 0.0


A_NAME, B_NAME = ".lora_A.weight", ".lora_B.weight"


class StackedLayer(NamedTuple):
    """The factors of one layer of all K voters, in float64."""

    b_M_K_R: Wide
    a_K_R_N: Wide


def _stacked_layers(votes: Sequence[Load], spec: AdapterSpec) -> Iterator[StackedLayer]:
    shapes = {tensor.name: tensor.shape for tensor in spec.tensors}
    stems = [name.removesuffix(A_NAME) for name in shapes if name.endswith(A_NAME)]
    for group in _groups(stems, spec, most=HELD // len(votes)):
        held = {}
        for stem in group:
            (m, r), (_, n) = shapes[stem + B_NAME], shapes[stem + A_NAME]
            held[stem] = StackedLayer(np.empty((m, len(votes), r)), np.empty((len(votes), r, n)))
        for place, load in enumerate(votes):
            tensors = load().tensors()
            for stem, (b_M_K_R, a_K_R_N) in held.items():
                b_M_K_R[:, place] = tensors[stem + B_NAME]
                a_K_R_N[place] = tensors[stem + A_NAME]
        yield from held.values()


def _groups(stems: Sequence[str], spec: AdapterSpec, *, most: int) -> Iterator[list[str]]:
    """Consecutive layers that have at most so many numbers together, or one that has more."""
    group: list[str] = []
    numbers = 0
    for stem in stems:
        spans = (spec.slices[stem + name] for name in (A_NAME, B_NAME))
        size = sum(span.stop - span.start for span in spans)
        if group and numbers + size > most:
            yield group
            group, numbers = [], 0
        group.append(stem)
        numbers += size
    yield group


def _squares(layer: StackedLayer) -> tuple[float, float]:
    """The squared norms of mean(BA) - mean(B) mean(A) and of mean(BA); `layer` is used up."""
    b_M_K_R, a_K_R_N = layer
    (m, voters, rank), n = b_M_K_R.shape, a_K_R_N.shape[-1]
    mean_b, mean_a = b_M_K_R.mean(axis=1), a_K_R_N.mean(axis=0)
    # Views: both are contiguous.
    left, right = b_M_K_R.reshape(m, voters * rank), a_K_R_N.reshape(voters * rank, n)
    if voters * rank * (m + n) > m * n:
        product = left @ right / voters
        whole = float(np.vdot(product, product))
        product -= mean_b @ mean_a
        return float(np.vdot(product, product)), whole
    whole = _product_square(left, right)
    b_M_K_R -= mean_b[:, None]
    a_K_R_N -= mean_a
    return _product_square(left, right) / voters**2, whole / voters**2


def _product_square(left: Wide, right: Wide) -> float:
    return float(np.sum((left.T @ left) * (right @ right.T)))


def _cosine(start: FloatVector, end: FloatVector, vote: FloatVector, lengths: float) -> float:
    """`lengths` is the product of both updates' lengths."""
    return update_product(start, end, vote) / lengths if lengths else 0.0
