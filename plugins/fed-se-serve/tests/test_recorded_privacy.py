"""What is recorded of what was said: without consent nothing, and nothing private."""

from dataclasses import replace
from pathlib import Path

import pytest
from scene_records import END, NOON, conversation, names_redactor, new, opened, text, turn

from fedse.errors import StoreError
from fedse.store.sealing import KeyedSeal
from fedse_serve.rows import FeedbackRow, Guards
from fedse_serve.stored import feedback_of, sessions, turns_of


def test_without_consent_counts_and_guards_are_all_there_is(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.begin_all([new(learn=False, person="Ann Lee")])
    guards = Guards(2, True, False, "engine", 0.25)
    records.add_turns([turn(1, "<user>planted-question", "planted-answer", guards=guards)])
    records.add_feedback(
        [
            FeedbackRow("solved", True, NOON, session="s1", tags={"by": "planted-tag"}),
            FeedbackRow("comment", "planted-comment", NOON, inference="i1"),
        ]
    )
    (stored,) = turns_of(records, "s1")
    assert (stored.guards, stored.observation, stored.given_ids) == (guards, "", ())
    assert (stored.prompt_tokens, stored.sampled_tokens) == (22, 15)
    assert [(one.metric, one.value) for one in feedback_of(records, "s1")] == [
        ("solved", True),
        ("comment", ""),
    ]
    assert not _found(tmp_path, b"planted")
    assert not _found(tmp_path, b"Ann")


def test_a_name_is_nowhere_and_its_pseudonym_is_one_in_a_session(tmp_path: Path) -> None:
    records = opened(tmp_path, redact=names_redactor(tmp_path.parent / "lists", "Ann Lee", "Bo"))
    records.begin_all([new(person="Ann Lee"), new("s2", person="Ann Lee")])
    asked = conversation(("I am Ann Lee", "hi Ann Lee"), ("ask Bo", "I am ANN LEE?"), ("1", "2"))
    records.add_turns(asked)
    records.add_turns([turn(9, "<user>I am Ann Lee", "ok", session="s2")])
    records.add_feedback([FeedbackRow("comment", "by ann lee", NOON, session="s1")])
    one, two, three = turns_of(records, "s1")
    (pseudonym,) = {one.observation.removeprefix("I am "), one.reply.removeprefix("hi ")}
    assert pseudonym.startswith("[NAMES-")
    assert two.reply == f"I am {pseudonym}?"
    assert text(two.sampled_ids) == f"I am {pseudonym}?{END}"
    assert text(one.given_ids) == f"<user>I am {pseudonym}{END}<assistant>"
    assert feedback_of(records, "s1")[0].value == f"by {pseudonym}"
    assert turns_of(records, "s2")[0].observation not in one.observation
    assert [t.redacted for t in (one, two, three)] == [True, True, True]
    assert [t.log_probs for t in (one, two, three)] == [(), (), ()]
    assert not _found(tmp_path, b"Ann Lee")
    assert (text(three.given_ids), text(three.sampled_ids)) == (
        f"<user>1{END}<assistant>",
        f"2{END}",
    )


def test_what_follows_a_redacted_turn_has_no_chances_of_its_own(tmp_path: Path) -> None:
    records = opened(tmp_path, redact=names_redactor(tmp_path / "lists", "Ann Lee"))
    records.begin_all([new()])
    first, second = conversation(("I am Ann Lee", "hi"), ("and now?", "nothing"))
    records.add_turns([first, replace(second, earlier_shown=(), earlier_said=())])
    assert [(t.redacted, t.log_probs) for t in turns_of(records, "s1")] == [(True, ())] * 2


def test_what_the_agent_adds_of_its_own_is_not_learned(tmp_path: Path) -> None:
    records = opened(tmp_path, redact=names_redactor(tmp_path / "lists", "Ann Lee"))
    records.begin_all([new()])
    asked = [("who?", "Ann Lee"), ("again", "Ann Lee"), ("Ann Lee?", "yes, Ann Lee")]
    records.add_turns(conversation(*asked))
    assert [one.learned for one in turns_of(records, "s1")] == [False, False, True]


def test_a_name_that_only_the_tokens_have_is_redacted_too(tmp_path: Path) -> None:
    records = opened(tmp_path, redact=names_redactor(tmp_path / "lists", "Ann Lee"))
    records.begin_all([new()])
    prompt, reply = f"<system>of Ann Lee{END}<user>hello", 'call {"to": "Ann Lee"}'
    records.add_turns([replace(turn(1, prompt, reply), observation="hello", reply="")])
    (stored,) = turns_of(records, "s1")
    assert "Ann" not in text(stored.given_ids) + text(stored.sampled_ids)
    assert text(stored.given_ids).endswith(f"]{END}<user>hello")


def test_without_an_encoder_the_tokens_of_a_changed_turn_are_left_out(tmp_path: Path) -> None:
    redact = names_redactor(tmp_path / "lists", "Ann Lee", encoder=None)
    records = opened(tmp_path, redact=redact)
    records.begin_all([new()])
    records.add_turns(conversation(("hello", "hi"), ("Ann Lee", "yes")))
    one, two = turns_of(records, "s1")
    assert (len(one.sampled_ids), two.given_ids, two.sampled_ids) == (3, (), ())


def test_sealed_records_have_no_text_and_open_with_their_key_only(tmp_path: Path) -> None:
    records = opened(tmp_path, seal=KeyedSeal(b"k" * 32))
    records.begin_all([new("planted-session")])
    said = turn(1, "<user>planted-question", "planted-answer", session="planted-session")
    records.add_turns([said])
    records.add_feedback([FeedbackRow("comment", "planted", NOON, session="planted-session")])
    assert not _found(tmp_path, b"planted")
    again = opened(tmp_path, seal=KeyedSeal(b"k" * 32))
    assert turns_of(again, "planted-session")[0].reply == "planted-answer"
    assert [one.session for one in sessions(again)] == ["planted-session"]
    assert feedback_of(again, "planted-session")[0].value == "planted"
    with pytest.raises(StoreError, match="is written with"):
        opened(tmp_path, seal=KeyedSeal(b"l" * 32))
    with pytest.raises(StoreError, match="the site's key is none"):
        opened(tmp_path)


def _found(folder: Path, words: bytes) -> bool:
    files = [file for file in folder.rglob("service*") if file.is_file()]
    assert files
    return any(words in file.read_bytes() for file in files)
