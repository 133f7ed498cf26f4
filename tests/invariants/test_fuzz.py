"""The parsers of what arrives, on a hundred thousand mutants: right or rejected, nothing else.

What is right is decided here a second time, in another way, so a mutant that is let through
although it should not be is found as surely as one that raises the wrong thing.
"""

import math
import struct
import tracemalloc
import warnings
from collections import Counter
from random import Random

import pytest

from tests.needs import needs

needs("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedse.aggregate.validate import parse_adapter
from fedse.config.aggregation import AggregateSection
from fedse.errors import AdapterRejected, WireError
from fedse.flower.messages.wire import ADAPTER, RAW, REPLY, read_reply, reply_content
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter
from tests.hostile import HEADER, LEGAL, MAX_NORM, OFFENDER, PAYLOADS, SPEC, bytes_of, our_reply

MUTANTS, RECORD_MUTANTS = 100_000, 10_000
GOOD = toy_adapter(SPEC, 5).to_bytes()
SEEDS = [
    data
    for payload in (*PAYLOADS.values(), *LEGAL.values())
    if (data := bytes_of(payload, toy_adapter(SPEC, 5))) and len(data) <= 4096
]
FLOATS = [
    0.0, -0.0, 1e-45, 1.0, -7.5, 99.0, 9.9e3, 1.1e4, 1e10, 3.4e38, math.nan, math.inf, -math.inf,
]  # fmt: skip
LENGTHS = [0, 1, len(HEADER) - 8, len(HEADER), 2**31, 2**63, 2**64 - 1]


def mutant(random: Random) -> bytes:
    # Half of them start sound, so that not every one is caught by its length.
    data = bytearray(GOOD if random.random() < 0.5 else random.choice(SEEDS))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        random.choice(OPERATIONS)(data, random)
    return bytes(data)


def place(data: bytearray, random: Random) -> int:
    return random.randrange(len(data) + 1)


def flip(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def number(data: bytearray, random: Random) -> None:
    """One of the numbers becomes a special one, or any other bits."""
    at = len(HEADER) + 4 * random.randrange(SPEC.size)
    bits = (
        random.randbytes(4) if random.random() < 0.3 else struct.pack("<f", random.choice(FLOATS))
    )
    data[at : at + 4] = bits


def length(data: bytearray, random: Random) -> None:
    data[:8] = random.choice(LENGTHS).to_bytes(8, "little")


def cut(data: bytearray, random: Random) -> None:
    at = place(data, random)
    del data[at : at + random.randrange(1, 32)]


def grow(data: bytearray, random: Random) -> None:
    at = place(data, random)
    data[at:at] = random.randbytes(random.randrange(1, 32))


def repeat(data: bytearray, random: Random) -> None:
    at = place(data, random)
    data[at:at] = data[at : at + random.randrange(1, 64)]


def move(data: bytearray, random: Random) -> None:
    """Four bytes change places, so length and content stay."""
    a, b = place(data, random), place(data, random)
    data[a : a + 4], data[b : b + 4] = data[b : b + 4], data[a : a + 4]


def splice(data: bytearray, random: Random) -> None:
    other, at = random.choice(SEEDS), place(data, random)
    data[at:] = other[at:]


OPERATIONS = (flip, number, number, number, length, cut, grow, repeat, move, splice)


def norms(data: bytes) -> list[float] | None:
    """The lengths of A and B if the bytes have the agreed form and finite numbers."""
    if not data.startswith(HEADER) or len(data) != len(HEADER) + 4 * SPEC.size:
        return None
    values = struct.unpack(f"<{SPEC.size}f", data[len(HEADER) :])
    if not all(map(math.isfinite, values)):
        return None
    parts = (values[SPEC.slices[tensor.name]] for tensor in SPEC.tensors)
    return [math.sqrt(math.fsum(x * x for x in part)) for part in parts]


def is_right(data: bytes, was_accepted: bool) -> bool:
    found = norms(data)
    # Two ways to add may differ in the last digit, which matters at the bound only.
    if found and any(abs(norm - MAX_NORM) < 1e-6 * MAX_NORM for norm in found):
        return True
    return was_accepted == (found is not None and max(found) <= MAX_NORM)


def test_a_hundred_thousand_mutants_are_right_or_rejected():
    random, seen, limits = Random(0), Counter(), AggregateSection()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(MUTANTS):
            data = mutant(random)
            try:
                adapter = parse_adapter(data, SPEC, limits)
            except AdapterRejected as rejection:
                kind, was_accepted = str(rejection).split()[1], False
                kind = str(rejection).split()[3] if kind in "AB" else kind
            else:
                kind, was_accepted = "accepted", True
                assert adapter.to_bytes() == data
            assert is_right(data, was_accepted), data
            seen[kind] += 1
    # Every way out was taken often, or the mutants would test one check only.
    least = {"accepted": 5_000, "of": 5_000, "header": 5_000, "a": 1_000, "norm": 1_000}
    assert set(seen) == set(least)
    assert all(seen[kind] >= count for kind, count in least.items()), seen


JUNK = [
    -1, 0, 1, 7, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 10**400, 0.0, 0.5, 1e300, math.nan,
    math.inf, -math.inf, [], [1, 2], [0.5], [math.nan] * 3,
]  # fmt: skip
WORDS = ["", RAW, "numpy.ndarray", "uint8", "float32", "pickle", "\0", "a" * 1000]
SHAPES = [(), (0,), (-1,), (SPEC.nbytes,), (SPEC.nbytes, 1), (10**18,), (2**63,)]
KEYS = [REPLY, ADAPTER, "client", "loss", "played", "", "\ud800", "note"]


def spoil_number(content: RecordDict, random: Random) -> None:
    record = content.get(REPLY)
    if isinstance(record, MetricRecord):
        name = random.choice([*record, *KEYS])
        record.pop(name, None) if random.random() < 0.2 else record.update(
            {name: random.choice(JUNK)}
        )


def spoil_array(content: RecordDict, random: Random) -> None:
    record = content.get(ADAPTER)
    if not isinstance(record, ArrayRecord):
        return
    data = random.choice([GOOD, b"", GOOD + b"\0", GOOD[:-1], bytes(SPEC.nbytes)])
    array = Array(
        dtype=random.choice([*WORDS, *["uint8"] * 8]),
        shape=random.choice([*SHAPES, *[(len(data),)] * 8]),
        stype=random.choice([*WORDS, *[RAW] * 8]),
        data=data,
    )
    record[random.choice([ADAPTER] * 9 + KEYS)] = array


def spoil_record(content: RecordDict, random: Random) -> None:
    key = random.choice(KEYS)
    content.pop(key, None)
    if random.random() < 0.7:
        kinds = (MetricRecord({"x": 1}), ConfigRecord({"x": "y"}), ArrayRecord())
        content[key] = random.choice(kinds)


SPOILERS = (spoil_number,) * 4 + (spoil_array,) * 3 + (spoil_record,)


def test_a_reply_is_as_agreed_or_a_wire_error():
    random, accepted = Random(1), 0
    adapter = Adapter(SPEC, toy_adapter(SPEC, 5).vector)
    for _ in range(RECORD_MUTANTS):
        content = our_reply(OFFENDER, adapter)
        for _ in range(random.choice((1, 1, 2, 3))):
            random.choice(SPOILERS)(content, random)
        try:
            reply = read_reply(content, max_bytes=SPEC.nbytes)
        except WireError:
            continue
        accepted += 1
        again = reply_content(reply, salt=content[REPLY]["salt"])
        assert typed(again[REPLY]) == typed(content[REPLY])
        assert again[ADAPTER] == content[ADAPTER]
    assert 500 < accepted < RECORD_MUTANTS / 2


def typed(record: MetricRecord) -> dict[str, tuple[type, object]]:
    """1 and 1.0 are equal, but one of them is no count."""
    return {name: (type(value), value) for name, value in record.items()}


@pytest.mark.parametrize("other", [None, 7, "text", [REPLY, ADAPTER], {REPLY: 1, ADAPTER: 2}])
def test_what_is_no_reply_at_all_is_a_wire_error(other: object):
    with pytest.raises(WireError, match=r"^the (reply|message)"):
        read_reply(other, max_bytes=SPEC.nbytes)


def peak_beside(data: bytes, spec) -> int:
    """Bytes allocated at most while `data` was parsed, without `data` itself."""
    spec.nbytes  # noqa: B018  (what the spec computes once belongs to no reply)
    tracemalloc.start()
    try:
        parse_adapter(data, spec, AggregateSection())
    except AdapterRejected:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def test_parsing_takes_no_second_payload_of_memory():
    wide = toy_spec(rank=8, inputs=500_000, outputs=500_000)
    good = toy_adapter(wide, 1, scale=0.01).to_bytes()
    assert len(good) > 30_000_000
    assert 0 < peak_beside(good, wide) <= len(good)
    wrong = {
        "too long": good + good,
        "another header": b"\xff" * 8 + good[8:],
        "a claim of 2**63 bytes": (2**63).to_bytes(8, "little") + b"{}",
    }
    assert all(peak_beside(data, wide) < 10_000 for data in wrong.values())
