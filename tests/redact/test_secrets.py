"""No secret of a sample of the corpus survives, and sentences about secrets stay as they are."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fedse.config.redaction import RedactSection
from fedse.redact.labelled import looks_random
from tests.needs import needs

needs("stdnum")

from fedse.redact.finding import finder_for
from fedse.redact.numbers import find_numbers
from fedse.redact.pseudonyms import redact_text
from fedse.redact.spans import Find, settled
from tests.redact.corpora.clean_texts import HARD, hard_prose
from tests.redact.corpora.secret_corpus import FORMATS, is_found, secrets

SECRETS = finder_for(RedactSection(secrets=True), Path("."))
SAMPLE = [
    one for carriers in ("first", "second", "third", "tuning") for one in secrets(7, 1, carriers)
]


def test_no_secret_of_a_sample_survives():
    assert len(FORMATS) >= 50
    assert len(SAMPLE) == 4 * len(FORMATS)
    assert [one.text for one in SAMPLE if not is_found(one, SECRETS)] == []


def test_redacting_a_sample_twice_changes_nothing():
    once = [redact_text(one.text, SECRETS) for one in SAMPLE]
    assert [redact_text(text, SECRETS) for text in once] == once


@given(st.text(max_size=60), st.sampled_from(SAMPLE), st.text(max_size=60))
def test_redaction_is_idempotent_in_any_surroundings(before, one, behind):
    once = redact_text(before + one.text + behind, SECRETS)
    assert redact_text(once, SECRETS) == once


def test_the_measure_can_fail():
    nothing: Find = lambda text: ()  # noqa: E731
    assert not any(is_found(one, nothing) for one in SAMPLE)


def test_sentences_about_secrets_are_left_alone():
    """But for the digest of a commit, which looks like a key and may be one."""
    lines = [line for line in hard_prose(3, times=2) if not line.startswith("commit ")]
    assert len(lines) == 2 * (len(HARD) - 1)
    assert [line for line in lines if settled(line, SECRETS)] == []


def test_a_number_counts_only_with_its_check_digits():
    card, account = "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00"
    text = f"pay with {card} or {account} PLEASE"
    found = [text[s.start : s.end] for s in find_numbers(text)]
    assert found == [card, account]
    for number, kind in ((card, "CARD"), (account, "IBAN")):
        for place in [i for i, letter in enumerate(number) if letter.isdigit()]:
            other = number[:place] + str((int(number[place]) + 1) % 10) + number[place + 1 :]
            assert kind not in {span.kind for span in find_numbers(other)}, other


def test_text_that_is_kept():
    keep = RedactSection(secrets=True, keep=("4111 1111 1111 1111",))
    assert redact_text("card 4111 1111 1111 1111", finder_for(keep, Path("."))) == (
        "card 4111 1111 1111 1111"
    )


def test_joined_words_are_not_random():
    assert not looks_random("TransformerEncoderLayer2WithRotaryEmbeddings")
    assert looks_random("x7Rk2Pq9Zt4Lm8Wc3Vb6Nh1J")
