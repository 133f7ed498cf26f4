"""The owner's lists and patterns."""

from pathlib import Path

import pytest

from fedse.config.redaction import RedactSection
from fedse.errors import ConfigError
from fedse.redact.finding import finder_for
from fedse.redact.own import kind_of
from fedse.redact.spans import settled


def found(text: str, folder: Path, **settings: tuple[str, ...]) -> list[tuple[str, str]]:
    find = finder_for(RedactSection(**settings), folder)
    return [(text[s.start : s.end], s.kind) for s in settled(text, find)]


def test_words_are_found_whole_in_any_case_and_the_longest_first(tmp_path: Path):
    (tmp_path / "staff.txt").write_text("# our people\nAnn\nAnn Lee\n\nJ. O'Neil\n")
    text = "ANN LEE met ann and Annabel; j. o'neil was there, Ann\nLee too"
    assert found(text, tmp_path, words=("staff.txt",)) == [
        ("ANN LEE", "STAFF"),
        ("ann", "STAFF"),
        ("j. o'neil", "STAFF"),
        ("Ann\nLee", "STAFF"),
    ]


def test_patterns_redact_the_first_group_or_all(tmp_path: Path):
    (tmp_path / "ours.toml").write_text("CASE = 'C-\\d{6}'\nBED = 'bed (\\d+)'\n")
    assert found("C-123456 in bed 12", tmp_path, patterns=("ours.toml",)) == [
        ("C-123456", "CASE"),
        ("12", "BED"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CASE = '('", "not a regular expression"),
        ("case = 'x'", "2 to 16 capital letters"),
        ("CASE 'x'", "not TOML"),
    ],
)
def test_a_wrong_pattern_is_named(tmp_path: Path, text: str, message: str):
    (tmp_path / "ours.toml").write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        finder_for(RedactSection(patterns=("ours.toml",)), tmp_path)
    assert "ours.toml" in error.value.hint


def test_a_missing_list_stops(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"staff\.txt"):
        finder_for(RedactSection(words=("staff.txt",)), tmp_path)


def test_the_kind_is_the_name_of_the_file():
    assert [kind_of(Path(n)) for n in ("staff.txt", "bed-list.txt", "1.txt")] == [
        "STAFF",
        "BEDLIST",
        "WORD",
    ]


def test_it_is_on_if_anything_is_asked_for():
    assert not RedactSection().on
    assert RedactSection(secrets=True).on
    assert RedactSection(words=("staff.txt",)).on
