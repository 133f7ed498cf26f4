"""Masks: as many uniform numbers modulo 2^32 as an update has, from a key, by AES-256 in CTR mode.

A key is used for one stream only, so the counter begins at 0. Whoever does not have the key cannot
tell the stream, nor therefore a number to which it was added, from uniform ones.
"""

from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fedse.aggregate.norms import blocks
from fedse.secure_sum.fixed_point import Whole

NUMBERS = 1 << 14
"""Per step; 64 kB, which a core keeps at hand. The size of a step changes no number."""
ZEROS = bytes(4 * NUMBERS)
# `update_into` asks for as much room as a block cipher could need.
SLACK = 16


def add_stream(total: Whole, key: bytes) -> None:
    """The stream of `key` was added to `total`, modulo 2^32."""
    _apply(total, key, np.add)


def subtract_stream(total: Whole, key: bytes) -> None:
    """The stream of `key` was taken from `total`, modulo 2^32."""
    _apply(total, key, np.subtract)


def _apply(total: Whole, key: bytes, operation: Callable[..., Whole]) -> None:
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    room = bytearray(4 * NUMBERS + SLACK)
    numbers = np.frombuffer(room, dtype="<u4", count=NUMBERS)
    for part in blocks(total.size, NUMBERS):
        here = total[part]
        encryptor.update_into(ZEROS[: 4 * here.size], room)
        operation(here, numbers[: here.size], out=here)
