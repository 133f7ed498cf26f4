"""One value has one pseudonym in an episode, and a pseudonym tells nothing of the value."""

import re
from collections.abc import Iterator
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from fedse.redact.pseudonyms import plan_redaction, redact_text
from fedse.redact.spans import CONSONANTS, LETTERS, PSEUDONYM, Span

words = st.text(alphabet="ab 7", max_size=12)
values = st.lists(st.from_regex(r"#[a-z]{6}", fullmatch=True), min_size=3, max_size=3, unique=True)


def tagged(text: str) -> Iterator[Span]:
    for match in re.finditer(r"#[a-z]{6}", text):
        yield Span(*match.span(), "TAG")


@given(st.lists(words, min_size=4, max_size=4), values)
def test_redacting_twice_changes_nothing_and_no_value_is_left(parts: list[str], hidden: list[str]):
    texts = [f"{part} {value} {part}" for part, value in zip(parts, hidden, strict=False)]
    once = [plan_redaction(texts, tagged).apply(text) for text in texts]
    again = plan_redaction(once, tagged)
    assert [again.apply(text) for text in once] == once
    assert not any(value in text for value in hidden for text in once)
    bare = [PSEUDONYM.sub("", text) for text in once]
    assert bare == [f"{part}  {part}" for part, _ in zip(parts, hidden, strict=False)]


@given(values, values)
def test_the_pseudonyms_do_not_depend_on_the_values(some: list[str], others: list[str]):
    """Two episodes that differ in private values only become the same episode."""
    results = []
    for first, second, third in (some, others):
        texts = [f"log in as {first}", f"type {second} then {first}", f"say {third}"]
        plan = plan_redaction(texts, tagged, identity="env/1")
        results.append([plan.apply(text) for text in texts])
    assert results[0] == results[1]


def test_the_same_value_has_one_pseudonym_here_and_another_one_elsewhere():
    here = ["user #aaaaaa", "type #aaaaaa", "not #bbbbbb"]
    plan = plan_redaction(here, tagged, identity="env/1")
    first, second, third = (PSEUDONYM.search(plan.apply(text))[0] for text in here)
    assert first == second != third
    for other in (
        plan_redaction(here, tagged, identity="env/2"),
        plan_redaction([*here, "more"], tagged, identity="env/1"),
    ):
        assert PSEUDONYM.search(other.apply(here[0]))[0] != first


def test_spelling_does_not_matter():
    def find(text: str) -> Iterator[Span]:
        for match in re.finditer(r"[A-Z]{4}[ -]?\d{4}", text):
            yield Span(*match.span(), "CASE")

    done = redact_text("ABCD 1234, then ABCD-1234 and ABCD1234", find)
    assert len(set(PSEUDONYM.findall(done))) == 1
    assert len({match[0] for match in PSEUDONYM.finditer(done)}) == 1


def test_a_value_is_found_again_without_its_label():
    def labelled(text: str) -> Iterator[Span]:
        for match in re.finditer(r"password: (\w+)", text):
            yield Span(*match.span(1), "SECRET")

    texts = ["password: swordfish", "type[swordfish]", "swordfishes swim", "password: abc", "abc"]
    plan = plan_redaction(texts, labelled)
    done = [plan.apply(text) for text in texts]
    assert PSEUDONYM.fullmatch(done[1].removeprefix("type[").removesuffix("]"))
    assert done[2] == texts[2], "only whole words"
    assert done[4] == "abc", "too short to be sure"
    assert [r.times for r in plan.replacements()] == [2, 1]


def test_a_pseudonym_that_stands_there_already_is_not_given_to_another_value():
    shortest = product(CONSONANTS, repeat=LETTERS)
    taken = "".join(f"[TAG-{''.join(letters)}]" for letters in shortest)
    done = redact_text(f"{taken} #aaaaaa", tagged)
    assert done.startswith(taken)
    assert PSEUDONYM.fullmatch(done.removeprefix(f"{taken} "))
