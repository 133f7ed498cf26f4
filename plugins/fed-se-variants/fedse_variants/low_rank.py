"""Sums of products B A, cut to the nearest product of a small rank.

Nothing of the size of a whole layer is formed: of the stacked factors only the triangles of their
QR decompositions are multiplied, and that small matrix is what is decomposed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fedse.extend.merging import Adapter, AdapterSpec, Wide

A_NAME, B_NAME = ".lora_A.weight", ".lora_B.weight"


class Layer(NamedTuple):
    """The factors of one layer in float64; what the model sees of it is the product B A."""

    stem: str
    b: Wide
    a: Wide


def layers_of(adapter: Adapter) -> Iterator[Layer]:
    """The layers of an adapter, in the order of its spec."""
    tensors = adapter.tensors()
    for stem in [name.removesuffix(A_NAME) for name in tensors if name.endswith(A_NAME)]:
        b, a = tensors[stem + B_NAME], tensors[stem + A_NAME]
        yield Layer(stem, b.astype(np.float64), a.astype(np.float64))


def adapter_of(spec: AdapterSpec, layers: Iterable[Layer]) -> Adapter:
    """The adapter with these layers; all numbers of a layer that is not among them are zero."""
    vector = np.zeros(spec.size, dtype=np.float32)
    for stem, b, a in layers:
        vector[spec.slices[stem + B_NAME]] = b.reshape(-1)
        vector[spec.slices[stem + A_NAME]] = a.reshape(-1)
    return Adapter(spec, vector)


def product_square(left: Sequence[Wide], right: Sequence[Wide]) -> float:
    """The squared Frobenius norm of sum_k left_k right_k."""
    u, v = np.concatenate(left, axis=1), np.concatenate(right, axis=0)
    return float(np.sum((u.T @ u) * (v @ v.T)))


def nearest_product(
    left: Sequence[Wide], right: Sequence[Wide], *, rank: int, like: Wide
) -> tuple[Wide, Wide]:
    """B and A of `rank` whose product is the nearest one to sum_k left_k right_k.

    By Eckart and Young it is the truncated singular value decomposition. One product has many pairs
    of factors; this is the pair whose A has orthogonal rows, together as long as those of `like`,
    and turned as near to `like` as they can be. So it does not depend on the signs of singular
    vectors, and no row of A vanishes together with its column of B, which could never learn again.
    """
    q_left, r_left = np.linalg.qr(np.concatenate(left, axis=1))
    q_right, r_right = np.linalg.qr(np.concatenate(right, axis=0).T)
    u, values, vt = np.linalg.svd(r_left @ r_right.T, full_matrices=False)
    kept = min(rank, values.size)
    b, a = q_left @ (u[:, :kept] * values[:kept]), vt[:kept] @ q_right.T
    scale = float(np.linalg.norm(like)) / kept**0.5 or 1.0
    turned, _, back = np.linalg.svd(like @ a.T, full_matrices=False)
    turn = turned @ back
    return b @ turn.T / scale, scale * turn @ a
