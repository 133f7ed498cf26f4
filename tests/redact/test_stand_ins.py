"""Stand-ins have the shape of what they stand for, are nobody's, and are known again."""

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.redact import personal
from fedse.redact.episode import Redactor, pseudonyms_in
from fedse.redact.own import word_finder
from fedse.redact.spans import PSEUDONYM, SECRET, Span
from fedse.redact.stand_ins import MAKERS, alike, stand_ins
from fedse.types import Task, Trajectory, Turn

NAMES = ("Ann", "Bo", "Maria", "Ilse Kuhn")
WORLD = "{} is in room 7, {} in room 9. {}?"


def shape(text: str) -> str:
    kinds = {"Lu": "A", "Ll": "a", "Nd": "0"}
    return "".join(kinds.get(unicodedata.category(sign), sign) for sign in text)


def played(*said: tuple[str, str]) -> Trajectory:
    turns = tuple(Turn(observation=seen, action=done) for seen, done in said)
    task = Task(env="desk", id="1", split="train")
    return Trajectory(
        task=task, seed=0, turns=turns, outcome="success", reward=1, policy="x", round=1
    )


@pytest.fixture
def redactor(tmp_path: Path) -> Redactor:
    (tmp_path / "staff.txt").write_text("\n".join(NAMES))
    return Redactor(word_finder(tmp_path / "staff.txt"))


@given(st.from_regex(r"[A-Za-zÀ-ÖØ-öø-ÿ0-9 .,/-]{1,20}", fullmatch=True), st.integers(0, 99))
def test_letters_capitals_digits_and_signs_stay_in_their_places(value: str, seed: int):
    assert shape(alike(value, Random(seed))) == shape(value)


@pytest.mark.parametrize("value", ["Иван", "Γιώργος", "田中", "김민준", "דוד"])
def test_a_script_stays_a_script(value: str):
    made = alike(value, Random(0))
    assert len(made) == len(value)
    assert made != value
    assert all(ord(sign) > 0x2FF for sign in made)


def test_what_could_reach_somebody_is_set_aside_for_examples():
    def first(kind: str, value: str) -> str:
        return next(stand_ins(kind, value, 1))

    mailbox = first("EMAIL", "ann.lind@clinic.de")
    assert re.fullmatch(r"[a-z]{3}\.[a-z]{4}@example\.(com|net|org)", mailbox)
    for value in ("10.1.2.3", "fe80::1"):
        assert ipaddress.ip_address(first("IP", value)).is_private, "as networks of examples are"
    assert re.fullmatch(r"00-00-5E-00-53-[0-9A-F]{2}", first("MAC", "3c-22-fb-00-11-22"))
    assert re.fullmatch(r"\+99 9\d \d{6}", first("PHONE", "+49 30 123456"))
    assert re.fullmatch(r"00999\d{7}", first("PHONE", "004930123456"))
    assert re.fullmatch(r"\(000\) \d{3}-\d{4}", first("PHONE", "(212) 555-0123"))


def test_a_secret_has_no_stand_in():
    assert next(stand_ins(SECRET, "hunter2", 0), "") == ""


def test_no_stand_in_is_a_name_of_the_list_or_in_the_text(redactor: Redactor):
    episode = played((WORLD.format("Ann", "Bo", "Ann"), "7"), ("thank you", "bye Ann"))
    done = redactor.episode(episode)
    texts = " ".join(text for turn in done.turns for text in (turn.observation, turn.action))
    assert not set(re.findall(r"\w+", texts)) & set(NAMES)
    (ann, _), (bo, _) = done.stand_ins
    assert done.turns[0].observation == WORLD.format(ann, bo, ann)
    assert done.turns[1].action == f"bye {ann}"
    assert (len(ann), len(bo)) == (3, 2)
    assert pseudonyms_in(done) == {"STAFF": 4}


@given(st.lists(st.sampled_from(NAMES), min_size=2, max_size=2, unique=True))
def test_episodes_that_differ_in_values_only_are_one_lesson(tmp_path_factory, names: list[str]):
    folder = tmp_path_factory.mktemp("lists")
    (folder / "staff.txt").write_text("\n".join(NAMES))
    made = Redactor(word_finder(folder / "staff.txt"))
    some = made.episode(played((WORLD.format(*names, names[0]), "7")))
    other = made.episode(played((WORLD.format("Ann", "Bo", "Ann"), "7")))
    assert some.content_digest == other.content_digest
    turned = made.episode(played((WORLD.format(*names, names[1]), "7")))
    assert turned.content_digest != some.content_digest


def digits(text: str) -> Iterator[Span]:
    for match in re.finditer(r"\d{4}", text):
        yield Span(*match.span(), "CASE")


def labelled(text: str) -> Iterator[Span]:
    yield from digits(text)
    for match in re.finditer(r"for (\S+)", text):
        yield Span(*match.span(1), "PERSON")


def test_redacting_twice_changes_nothing_also_where_the_stand_in_is_found_again():
    """A pattern of the owner finds everything of its shape."""
    once = Redactor(digits).episode(played(("case 1234 for Ann", "open 1234")))
    assert digits_of(once) == [once.stand_ins[0][0]] * 2 != ["1234"] * 2
    assert Redactor(digits).episode(once) is once
    more = Redactor(labelled).episode(once)
    assert digits_of(more) == digits_of(once)
    assert {kind for _, kind in more.stand_ins} == {"CASE", "PERSON"}
    assert "Ann" not in more.turns[0].observation
    assert Redactor(labelled).episode(more) is more


def digits_of(episode: Trajectory) -> list[str]:
    texts = [text for turn in episode.turns for text in (turn.observation, turn.action)]
    return re.findall(r"\d{4}", " ".join(texts))


def test_a_value_that_has_no_free_stand_in_gets_a_mark():
    def sevens(text: str) -> Iterator[Span]:
        for match in re.finditer(r"(?<=n)\d", text):
            yield Span(*match.span(), "DIGIT")

    done = Redactor(sevens).episode(played(("n7 of 0123456789", "ok")))
    assert PSEUDONYM.search(done.turns[0].observation)
    assert done.stand_ins == ()


def test_every_maker_is_of_a_kind_that_is_found():
    source = Path(personal.__file__).read_text()
    assert all(f'"{kind}"' in source for kind in MAKERS)
