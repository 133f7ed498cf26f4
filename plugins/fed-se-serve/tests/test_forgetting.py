"""What is forgotten is gone from the file."""

from pathlib import Path

from scene_records import NOON, conversation, new, opened, turn

from fedse_serve.forgetting import Forgotten, forget_before, forget_person, withdraw
from fedse_serve.records import Records
from fedse_serve.rows import FeedbackRow, Guards
from fedse_serve.stored import feedback_of, session_named, sessions, turns_of


def filled(folder: Path) -> Records:
    """Ann's session s1 of two turns, and s2 of nobody known, a day later."""
    records = opened(folder)
    records.begin_all([new("s1", person="Ann Lee"), new("s2")])
    asked = conversation(("planted-one", "planted-reply"), ("planted-two", "planted-end"))
    guards = Guards(invalid_calls=1)
    later = turn(9, "<user>kept-one", "kept-reply", session="s2", at=NOON + 86400, guards=guards)
    records.add_turns([*asked, later])
    records.add_feedback(
        [
            FeedbackRow("comment", "planted-comment", NOON, session="s1"),
            FeedbackRow("solved", True, NOON, inference="i2"),
            FeedbackRow("comment", "kept-comment", NOON, session="s2"),
            FeedbackRow("solved", False, NOON, session="s2"),
        ]
    )
    return records


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob("service.db*")))


def test_a_person_is_forgotten_and_not_learned_about_again(tmp_path: Path) -> None:
    records = filled(tmp_path)
    assert b"planted" in bytes_of(tmp_path)
    assert forget_person(records, "Ann Lee", NOON) == Forgotten(1, 2, 2)
    assert b"planted" not in bytes_of(tmp_path)
    assert [one.session for one in sessions(records)] == ["s2"]
    assert forget_person(records, "Ann Lee", NOON) == Forgotten(0, 0, 0)
    (again, other) = records.begin_all([new("s3", person="Ann Lee"), new("s4", person="Bo")])
    assert (again.learn, other.learn) == (False, True)


def test_a_turn_that_arrives_after_its_session_was_forgotten_is_not_stored(tmp_path: Path) -> None:
    records = filled(tmp_path)
    forget_person(records, "Ann Lee", NOON)
    assert records.add_turns([turn(3, "planted-late", "planted")]) == 0
    row = FeedbackRow("solved", True, NOON, session="s1")
    assert records.add_feedback([row]) == [None]
    assert b"planted" not in bytes_of(tmp_path)


def test_old_sessions_are_gone_and_the_rest_is_as_it_was(tmp_path: Path) -> None:
    records = filled(tmp_path)
    before = turns_of(records, "s2"), feedback_of(records, "s2")
    assert forget_before(records, NOON) == Forgotten(0, 0, 0)
    assert forget_before(records, NOON + 86400) == Forgotten(1, 2, 2)
    assert b"planted" not in bytes_of(tmp_path)
    assert (turns_of(records, "s2"), feedback_of(records, "s2")) == before


def test_consent_that_is_taken_back_leaves_counts_and_guards(tmp_path: Path) -> None:
    records = filled(tmp_path)
    withdraw(records, "s2")
    assert b"kept" not in bytes_of(tmp_path)
    session, (stored,) = session_named(records, "s2"), turns_of(records, "s2")
    assert session is not None
    assert (session.learn, stored.guards.invalid_calls) == (False, 1)
    assert [one.metric for one in feedback_of(records, "s2")] == ["solved"]
    assert turns_of(records, "s1")[1].reply == "planted-end"
