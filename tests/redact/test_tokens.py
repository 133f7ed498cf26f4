"""A token of each service in the table is found, and a readable word with its beginning is not."""

import re
import string
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.redact.spans import Span
from fedse.redact.token_formats import ALPHABETS, TOKEN_FORMATS, TokenFormat
from fedse.redact.tokens import expression, find_tokens

SERVICES = [pytest.param(form, id=form.service) for form in TOKEN_FORMATS]


def made(form: TokenFormat, begins: str, random: Random) -> str:
    """A token as the row says, as short as the service makes it."""
    alphabet = re.findall(f"[{ALPHABETS[form.alphabet]}]", string.printable)
    parts = ("".join(random.choices(alphabet, k=int(n))) for n in form.lengths.split("."))
    owner = "" if begins[0].isalnum() else "123456789"
    return owner + begins + ".".join(parts)


def test_the_table_is_small_and_has_one_row_per_format():
    assert 60 <= len(TOKEN_FORMATS) <= 80
    assert len({form.service for form in TOKEN_FORMATS}) == len(TOKEN_FORMATS)
    begins = [word for form in TOKEN_FORMATS for word in form.begins.split()]
    assert len(set(begins)) == len(begins)
    assert {form.alphabet for form in TOKEN_FORMATS} <= ALPHABETS.keys()


@pytest.mark.parametrize("form", SERVICES)
@pytest.mark.parametrize("text", ["{}", "uses {}, then", 'key="{}"', "https://a.b/?t={}&x=1"])
def test_a_token_is_found_from_its_beginning_to_its_end(form: TokenFormat, text: str):
    random = Random(form.service)
    for begins in form.begins.split():
        token = made(form, begins, random)
        whole = text.format(token)
        start = whole.index(token)
        assert Span(start, start + len(token), "SECRET") in list(find_tokens(whole)), whole


@pytest.mark.parametrize("form", SERVICES)
def test_a_word_of_the_same_length_that_is_readable_stays(form: TokenFormat):
    readable = "the" + "another" * 20
    parts = ".".join(readable[: int(n)] for n in form.lengths.split("."))
    for begins in form.begins.split():
        assert list(find_tokens(f"{begins}{parts}")) == []


def test_a_token_that_is_too_short_has_not_the_form():
    form = TokenFormat("ours", "ab_ cd_", "hex", "4.2")
    found = re.compile(expression(form))
    assert found.search("x=ab_12ef.9a")[1] == "12ef.9a"
    assert found.search("cd_00ff1.0123")[0] == "cd_00ff1.0123"
    assert not any(map(found.search, ["ab_12e.9a", "ab_12ef", "zab_12ef.9a", "AB_12ef.9a"]))


@given(st.text(max_size=80))
def test_spans_lie_in_the_text_and_hold_no_space(text: str):
    for span in find_tokens(text + "ghp_" + "aB3" * 12):
        assert not re.search(r"\s", (text + "ghp_" + "aB3" * 12)[span.start : span.end])
