"""Sessions, turns and feedback on record: once each, exact, private."""

import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scene_records import (
    CANARY,
    END,
    NOON,
    PLAIN,
    conversation,
    ids,
    names_redactor,
    new,
    opened,
    text,
    turn,
)

from fedse.errors import StoreError
from fedse_serve.marks import Marks
from fedse_serve.rows import FeedbackRow, Pin
from fedse_serve.stored import feedback_of, session_named, turns_of


def test_an_existing_session_keeps_its_first_pin(tmp_path: Path) -> None:
    records = opened(tmp_path)
    first = records.begin(
        "s1", person=None, application="shop", arm="stable", adapter=PLAIN, learn=True
    )
    again = records.begin(
        "s1", person="Ann", application="desk", arm="canary", adapter=CANARY, learn=False
    )
    assert first == again == records.pin_of("s1") == Pin("s1", "stable", PLAIN, True, False)
    assert records.pin_of("s2") is None
    assert opened(tmp_path).pin_of("s1") == first


def test_sessions_of_one_transaction_may_be_the_same(tmp_path: Path) -> None:
    pins = opened(tmp_path).begin_all([new("s1"), new("s2"), new("s1", learn=False)])
    assert [pin.session for pin in pins] == ["s1", "s2", "s1"]
    assert all(pin.learn for pin in pins)


def test_a_continued_prompt_is_stored_as_what_is_new(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.begin_all([new()])
    asked = conversation(("hello", "hi"), ("and now?", "nothing"), ("bye", "bye"))
    assert records.add_turns(asked) == 3
    stored = turns_of(records, "s1")
    assert [one.parent for one in stored] == [None, 1, 2]
    assert text(stored[1].given_ids) == f"<user>and now?{END}<assistant>"
    whole = [i for one in stored for i in (*one.given_ids, *one.sampled_ids)]
    assert whole == [*asked[-1].prompt_ids, *asked[-1].sampled_ids]
    assert stored[0].log_probs == tuple(asked[0].log_probs)
    assert stored[0].sampling == {"temperature": 1.0}
    assert [one.prompt_tokens for one in stored] == [len(one.prompt_ids) for one in asked]


def test_a_prompt_that_was_rewritten_is_stored_whole(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.begin_all([new()])
    first, second = conversation(("hello", "hi"), ("and now?", "nothing"))
    other = turn(3, f"<user>summary{END}<assistant>", "fine")
    branch = turn(4, text([*first.prompt_ids, *first.sampled_ids]) + "<user>else", "yes")
    records.add_turns([first, second, other, branch])
    stored = turns_of(records, "s1")
    assert [one.parent for one in stored] == [None, 1, None, 1]
    assert stored[2].given_ids == tuple(other.prompt_ids)
    assert text(stored[3].given_ids) == "<user>else"


def test_continuing_does_not_depend_on_memory(tmp_path: Path) -> None:
    first, second = conversation(("I am Ann Lee", "hi Ann Lee"), ("and now?", "nothing"))
    redact = names_redactor(tmp_path / "lists", "Ann Lee")
    records = opened(tmp_path, redact=redact)
    records.begin_all([new()])
    records.add_turns([first])
    again = opened(tmp_path, redact=redact)
    again.add_turns([second])
    assert [one.parent for one in turns_of(again, "s1")] == [None, 1]


def test_the_same_turn_twice_is_one_row(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.begin_all([new()])
    one, two = conversation(("hello", "hi"), ("and now?", "nothing"))
    assert records.add_turns([one, one]) == 1
    assert records.add_turns([one, two]) == 1
    session = session_named(records, "s1")
    assert session is not None
    assert (session.turns, session.last) == (2, NOON + 2)
    assert [stored.number for stored in turns_of(records, "s1")] == [1, 2]


def test_a_group_of_turns_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.begin_all([new()])
    broken = turn(2, "x", "y", sampled_ids=[-1])  # no token has that number
    with pytest.raises(StoreError):
        records.add_turns([turn(1, "x", "y"), broken])
    assert turns_of(records, "s1") == []


def test_a_turn_of_no_session_is_left_out(tmp_path: Path) -> None:
    records = opened(tmp_path)
    assert records.add_turns([turn(1, "x", "y")]) == 0


def test_feedback_is_there_once_and_the_newest_amends(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.begin_all([new()])
    records.add_turns([turn(1, "x", "y")])

    def say(value: bool, at: float, key: str | None = None) -> str | None:
        return records.add_feedback([FeedbackRow("solved", value, at, session="s1", key=key)])[0]

    up = say(True, 1.0)
    assert say(True, 2.0) == up  # the same again
    down = say(False, 3.0, "k")
    assert say(True, 4.0, "k") == down
    assert say(True, 5.0) not in (up, down)  # changed back
    assert [(one.value, one.at) for one in feedback_of(records, "s1")] == [
        (True, 1.0),
        (False, 3.0),
        (True, 5.0),
    ]


def test_feedback_about_nothing_known_has_no_id(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.begin_all([new()])
    about = [{"session": "s1"}, {"session": "s2"}, {"inference": "i1"}]
    rows = [FeedbackRow("solved", True, NOON, **one) for one in about]
    assert [made is None for made in records.add_feedback(rows)] == [False, True, True]


def test_other_threads_read_while_one_writes(tmp_path: Path) -> None:
    records, missing = opened(tmp_path), []
    names = [f"s{number}" for number in range(60)]

    def write() -> None:
        for name in names:
            records.begin_all([new(name)])

    writer = threading.Thread(target=write)
    writer.start()
    seen: set[str] = set()
    while writer.is_alive():
        there = {name for name in names if records.pin_of(name)}
        missing += seen - there
        seen = there
    writer.join()
    assert not missing
    assert all(records.pin_of(name) for name in names)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_who_is_held_out_stays_so_when_the_share_grows(
    who: list[str], one: float, other: float
) -> None:
    marks = Marks(b"k" * 32)
    less, more = sorted([one, other])
    assert all(marks.is_held_out(w, more) for w in who if marks.is_held_out(w, less))
    assert not any(marks.is_held_out(w, 0.0) for w in who)
    assert all(marks.is_held_out(w, 1.0) for w in who)


def test_all_sessions_of_a_person_are_held_out_together(tmp_path: Path) -> None:
    records = opened(tmp_path, held_out=0.5)
    pins = records.begin_all(
        [new(f"{person}-{number}", person=person) for person in "abcdefgh" for number in range(5)]
    )
    by_person = {pin.session[0]: set[bool]() for pin in pins}
    for pin in pins:
        by_person[pin.session[0]].add(pin.held_out)
    assert all(len(found) == 1 for found in by_person.values())
    alone = records.begin_all([new(f"s{number}") for number in range(400)])
    assert 150 < sum(pin.held_out for pin in alone) < 250  # 5 standard deviations


def test_records_without_their_key_are_refused(tmp_path: Path) -> None:
    opened(tmp_path).begin_all([new()])
    (tmp_path / "service.key").unlink()
    with pytest.raises(StoreError, match=r"service\.key is missing"):
        opened(tmp_path)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    with sqlite3.connect(tmp_path / "service.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="schema 99"):
        opened(tmp_path)


def test_only_the_owner_reads_the_files(tmp_path: Path) -> None:
    opened(tmp_path).begin_all([new()])
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert {"service.db", "service.db-wal", "service.key"} <= modes.keys()
    assert set(modes.values()) == {0o600}


def test_ids_are_marked_by_their_tokens_alone() -> None:
    marks = Marks(b"k" * 32)
    assert marks.of_ids(ids("abc")) == marks.of_ids(tuple(ids("abc")))
    assert marks.of_ids(ids("abc")) != marks.of_ids(ids("abd"))
    assert marks.of_ids(ids("abc")) != Marks(b"l" * 32).of_ids(ids("abc"))
