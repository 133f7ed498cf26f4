"""How far clients pull apart, and what averaging factors instead of products changes.

With U = [B_1/K .. B_K/K, -mean(B)] and V = [A_1; ..; A_K; mean(A)] the difference
mean(BA) - mean(B) mean(A) is U V, and ||U V||^2 = sum(U'U * VV') needs only small products.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from fedse.aggregate.low_rank import product_square
from fedse.aggregate.norms import blocks, distance
from fedse.committed import Drift
from fedse.types import Adapter, FloatVector


def drift_of(current: Adapter, merged: Adapter, votes: dict[str, Adapter]) -> Drift:
    """Length and direction of every voter's update, and the error of merging factors."""
    start, end = current.vector, merged.vector
    moved = distance(start, end)
    length = {client: distance(start, vote.vector) for client, vote in votes.items()}
    return Drift(
        length=length,
        cosine={
            client: _cosine(start, end, vote.vector, moved * length[client])
            for client, vote in votes.items()
        },
        merge_error=merge_error(list(votes.values())),
    )


def merge_error(votes: Sequence[Adapter]) -> float:
    """||mean(BA) - mean(B) mean(A)|| / ||mean(BA)|| over all layers; 0 where all products are 0."""
    tensors = [vote.tensors() for vote in votes]
    off, whole = 0.0, 0.0
    stems = [name.removesuffix(".lora_A.weight") for name in tensors[0] if "lora_A" in name]
    for stem in stems:
        a = [t[f"{stem}.lora_A.weight"].astype(np.float64) for t in tensors]
        b = [t[f"{stem}.lora_B.weight"].astype(np.float64) / len(votes) for t in tensors]
        whole += product_square(b, a)
        # mean(B) is the sum of the b, which are divided already.
        off += product_square([*b, -np.sum(b, axis=0)], [*a, np.mean(a, axis=0)])
    return sqrt(max(off, 0.0) / whole) if whole else 0.0


def _cosine(start: FloatVector, end: FloatVector, vote: FloatVector, lengths: float) -> float:
    """`lengths` is the product of both updates' lengths."""
    if not lengths:
        return 0.0
    dot = 0.0
    for part in blocks(start.size):
        here = start[part].astype(np.float64)
        dot += float(np.dot(end[part] - here, vote[part] - here))
    return dot / lengths
