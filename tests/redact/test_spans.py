"""What is found is found once, and nothing is left between two finds."""

import re
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from fedse.redact.spans import PSEUDONYM, Span, joined, replaced, settled

spans = st.lists(
    st.builds(Span, st.integers(0, 20), st.integers(0, 20), st.sampled_from(["AA", "BB"]))
)


def covered(found: list[Span]) -> set[int]:
    return {place for span in found for place in range(span.start, span.end)}


@given(spans)
def test_joined_spans_cover_the_same_places_and_none_twice(found: list[Span]):
    result = joined(found)
    assert covered(result) == covered(found)
    assert sum(span.end - span.start for span in result) == len(covered(result))
    assert result == sorted(result)


def test_the_longest_of_overlapping_spans_gives_the_kind():
    assert joined([Span(0, 3, "AA"), Span(2, 9, "BB")]) == [Span(0, 9, "BB")]
    assert joined([Span(0, 5, "AA"), Span(2, 6, "BB")]) == [Span(0, 6, "AA")]
    assert joined([Span(0, 2, "AA"), Span(2, 4, "BB")]) == [Span(0, 2, "AA"), Span(2, 4, "BB")]


def numbers(text: str) -> Iterator[Span]:
    """A whole word of two digits: whether it is one depends on its neighbours."""
    for match in re.finditer(r"(?<!\w)\d\d(?!\w)|xx", text):
        yield Span(*match.span(), "NUMBER")


@given(st.text(alphabet="x1 [-]N", max_size=30))
def test_after_replacing_nothing_more_is_found(text: str):
    found = settled(text, numbers)
    done = replaced(text, found, lambda _: "[NUMBER-BCD]")
    assert settled(done, numbers) == []
    assert settled(done + " ", numbers) == []


def test_what_a_neighbour_hid_is_found_too():
    """Between `xx` and the end stands 12, which is a word of its own only without `xx`."""
    assert settled("xx12", numbers) == [Span(0, 2, "NUMBER"), Span(2, 4, "NUMBER")]


def test_a_pseudonym_is_not_looked_at():
    text = "12 [NUMBER-BCD] 34"
    assert [text[s.start : s.end] for s in settled(text, numbers)] == ["12", "34"]
    assert PSEUDONYM.fullmatch("[NUMBER-BCD]")
    assert not PSEUDONYM.search("[NUMBER-AEI] [number-BCD] [N-BCD]")


@given(st.text(max_size=20))
def test_nothing_outside_the_spans_changes(text: str):
    found = settled(text, numbers)
    done = replaced(text, found, lambda _: "\0")
    kept = "".join(c for i, c in enumerate(text) if i not in covered(found))
    assert done.replace("\0", "") == kept.replace("\0", "")
