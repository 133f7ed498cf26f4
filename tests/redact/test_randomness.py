"""Words by chance are found whatever service they are of, and readable ones stay."""

import string
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.redact.letter_pairs import LETTERS, STEPS
from fedse.redact.randomness import (
    BITS,
    CLASSES,
    IN_ORDER,
    MOST,
    evidence,
    find_random,
    readable_bits,
)

BASE62 = string.ascii_letters + string.digits
READABLE = [
    "authenticate_user_with_token",
    "TransformerEncoderLayerWithRotaryEmbeddings",
    "/usr/share/doc/python3-packaging/examples/12/readme.txt",
    "2026-03-02T11:04:17.123456+01:00",
    "3.11.2rc1.dev20260302+local",
    "https://docs.example.org/how-to/redact.html#what-it-does-not-do",
    "tests/redact/test_secrets.py::test_sentences_about_secrets_are_left_alone",
    "Donaudampfschifffahrtsgesellschaft",
    "abcdefghijklmnopqrstuvwxyz0123456789",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "12345678901234567890123456789012",
    "0x7f3a9c51d2e84b60",
    "id=9f8b2c4d-1e3a-4f5b-8c7d-6e5f4a3b2c1d",
    "babyai/GoToRedBallGrey-train-00017",
    "anything-else-with-many-words-in-it-and-3-numbers-12-and-7",
]


def found(text: str) -> list[str]:
    return [text[span.start : span.end] for span in find_random(text)]


@pytest.mark.parametrize("word", READABLE)
def test_a_readable_word_stays(word: str):
    assert found(f"see {word} there") == []


@pytest.mark.parametrize(
    ("alphabet", "length"),
    [
        (BASE62, 26),
        (string.ascii_letters, 34),
        (BASE62 + "-_", 30),
        (BASE62 + "+/", 40),
        (string.ascii_lowercase + string.digits, 28),
        (string.ascii_uppercase + string.digits, 28),
        (string.digits + "abcdef", 32),
    ],
)
def test_words_by_chance_are_found_as_a_whole(alphabet: str, length: int):
    random = Random(length)
    words = ["".join(random.choices(alphabet, k=length)) for _ in range(200)]
    missed = [w for w in words if not any(w.strip("+/-_") in f for f in found(f"is={w}, then"))]
    assert len(missed) <= 1, missed


def test_a_random_word_in_readable_surroundings_is_found_without_them():
    word = "x7Rk2Pq9Zt4Lm8Wc3Vb6Nh1J"
    for text in (f"https://api.internal/report?key={word}&format=csv", f"see\n{word}\nthere"):
        assert found(text) == [word]
    assert found(f"the-word-{word}/index.html") == [word]


def test_evidence_is_the_best_sum_exactly():
    """Of all stretches, tried one by one."""
    bits = readable_bits()
    for word in ("a", "theQ7x", "Zx9-table-Qj4", "q0q0readable"):
        costs = [bits[pair] - BITS for pair in zip(f" {word}", word, strict=False)]
        sums = [sum(costs[i:j]) for i in range(len(word)) for j in range(i, len(word) + 1)]
        best, start, end = evidence(word, BITS)
        assert best == pytest.approx(max(sums))
        assert best == pytest.approx(sum(costs[start:end]))


@given(st.text(alphabet=BASE62 + "_-/.+=", min_size=1), st.text(alphabet=BASE62 + "_-/.+="))
def test_more_text_never_has_less_evidence(word: str, more: str):
    assert evidence(word + more, BITS)[0] >= evidence(word, BITS)[0]


def test_the_table_is_a_law_of_chance():
    """After each letter the probabilities of the next ones sum to about one, as rounded."""
    assert {len(costs) for costs in LETTERS.values()} == {26}
    assert set(LETTERS) == {"^", *string.ascii_lowercase}
    assert set(STEPS) == {" ", *CLASSES}
    for costs in LETTERS.values():
        assert 0.6 < sum(2.0 ** -int(bits, 16) for bits in costs) < 1.5
    for steps in STEPS.values():
        assert sum(2.0**-bits for bits in steps) == pytest.approx(1.0, abs=0.06)
    assert max(readable_bits().values()) == MOST
    assert {readable_bits()[pair] for pair in (("a", "a"), ("7", "8"), ("Y", "Z"))} == {IN_ORDER}
