"""What an outbox keeps: the newest votes whole, of the others digest and length."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedse.ledger.databases import outbox_answers
from fedse.protocol import SiteReply
from fedse.store.buffer import Buffer
from fedse.store.outbox import LEAST_KEPT, KeptVote
from fedse.types import ClientStats
from tests.store.older import made_older


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "buffer.db"


@pytest.fixture
def buffer(path: Path) -> Iterator[Buffer]:
    with closing(Buffer(path)) as opened:
        yield opened


def body(round: int) -> bytes:
    return bytes([round]) * (10 + round)


def request(number: int) -> str:
    return f"{number:064x}"


def finish(buffer: Buffer, round: int, *, keep: int = 0, vote: bool = True) -> None:
    reply = SiteReply(ClientStats(steps=round), body(round) if vote else None)
    buffer.outbox.finish("e", round, request(round), reply, keep=keep)


def whole(buffer: Buffer, rounds: range) -> list[int]:
    return [r for r in rounds if buffer.outbox.finished("e", r, request(r))]


def sent(path: Path) -> dict[int, tuple[str | None, int]]:
    return {entry.round: (entry.sent, entry.bytes_up) for entry in outbox_answers(path)}


def test_the_newest_votes_are_kept_and_what_was_sent_is_known_of_all(buffer: Buffer, path: Path):
    for round in range(1, 8):
        finish(buffer, round, keep=3)
    assert whole(buffer, range(1, 8)) == [5, 6, 7]
    assert sent(path) == {
        r: (hashlib.sha256(body(r)).hexdigest(), len(body(r))) for r in range(1, 8)
    }
    assert buffer.outbox.newest("e") == 7
    assert buffer.outbox.steps("e") == sum(range(1, 8))


def test_all_are_kept_unless_told_otherwise(buffer: Buffer):
    for round in range(1, 8):
        finish(buffer, round)
    assert whole(buffer, range(1, 8)) == list(range(1, 8))


def test_an_answer_without_a_vote_takes_no_votes_place(buffer: Buffer):
    for round in range(1, 8):
        finish(buffer, round, keep=2, vote=round in (1, 2, 4))
    assert buffer.outbox.kept_votes("e") == [KeptVote("e", r, len(body(r))) for r in (4, 2)]
    assert whole(buffer, range(1, 8)) == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("keep", [1, 2])
def test_a_round_that_is_asked_for_again_can_be_answered_and_made_again(buffer: Buffer, keep: int):
    """However little is to be kept: the newest answer and the vote it began with."""
    for round in (1, 2, 3):
        finish(buffer, round, keep=keep)
    assert LEAST_KEPT == 2
    assert buffer.outbox.finished("e", 3, request(3)) == SiteReply(ClientStats(steps=3), body(3))
    assert buffer.outbox.finished("e", 2, request(2)) == SiteReply(ClientStats(steps=2), body(2))


def test_a_round_that_is_done_anew_replaces_what_was_dropped(buffer: Buffer, path: Path):
    for round in range(1, 6):
        finish(buffer, round, keep=2)
    again = SiteReply(ClientStats(), b"other")
    buffer.outbox.finish("e", 1, request(101), again)
    assert buffer.outbox.finished("e", 1, request(101)) == again
    assert sent(path)[1] == (hashlib.sha256(b"other").hexdigest(), 5)
    buffer.outbox.finish("e", 1, request(102), SiteReply(ClientStats()))
    assert sent(path)[1] == (None, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7, 50])
def test_an_adapter_too_long_for_a_row_is_kept_in_pieces(
    buffer: Buffer, path: Path, size: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fedse.store.outbox.PIECE_BYTES", 3)
    data = bytes(range(size))
    done = SiteReply(ClientStats(), data)
    buffer.outbox.finish("e", 1, request(1), done)
    assert buffer.outbox.finished("e", 1, request(1)) == done
    assert buffer.outbox.kept_votes("e") == [KeptVote("e", 1, size)]
    assert sent(path) == {1: (hashlib.sha256(data).hexdigest(), size)}
    with closing(sqlite3.connect(path)) as db:
        longest = "SELECT max(length(adapter)) FROM outbox UNION ALL SELECT max(length(body)) FROM"
        rows = db.execute(f"{longest} sent_piece").fetchall()
    assert max(length or 0 for (length,) in rows) <= 3


def test_a_piece_that_was_changed_is_found_by_the_ledgers_check(
    buffer: Buffer, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fedse.store.outbox.PIECE_BYTES", 3)
    buffer.outbox.finish("e", 1, request(1), SiteReply(ClientStats(), b"abcdefg"))
    before = sent(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sent_piece SET body = x'00' WHERE piece = 1")
    assert sent(path) != before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    answers=st.lists(st.booleans(), min_size=1, max_size=9),
    keep=st.integers(0, 5),
    piece=st.sampled_from([3, 1000]),
)
def test_dropping_at_once_or_after_every_answer_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, answers, keep, piece
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedse.store.outbox.PIECE_BYTES", piece)
        states = []
        for each in (True, False):
            path = tmp_path_factory.mktemp("outbox") / "buffer.db"
            with closing(Buffer(path)) as buffer:
                for round, vote in enumerate(answers, start=1):
                    finish(buffer, round, keep=keep if each else 0, vote=vote)
                beyond = buffer.outbox.votes_beyond(keep)
                assert buffer.outbox.keep_newest(keep) == beyond
                rounds = range(1, len(answers) + 1)
                states.append((whole(buffer, rounds), sent(path), buffer.outbox.kept_votes("e")))
    assert states[0] == states[1]


def test_a_buffer_from_before_is_opened_and_its_answers_count(path: Path):
    """Schema 1 had neither pieces nor dropped adapters."""
    with closing(Buffer(path)) as buffer:
        finish(buffer, 1)
    made_older(path, 1, "sent", "sent_piece", "steps_taken")
    assert sent(path)[1][1] == len(body(1)), "its ledger can be verified as it is"
    with closing(Buffer(path)) as buffer:
        assert whole(buffer, range(1, 3)) == [1]
        for round in (2, 3, 4):
            finish(buffer, round, keep=2)
        assert whole(buffer, range(1, 5)) == [3, 4]
    assert sent(path)[1] == (hashlib.sha256(body(1)).hexdigest(), len(body(1)))


def test_every_question_of_a_round_has_an_answer_of_its_own(buffer: Buffer):
    for round in (1, 2):
        finish(buffer, round)
        for adapter in (100, 200):
            asked = SiteReply(ClientStats(validation_played=adapter))
            buffer.outbox.finish("e", round, request(adapter + round), asked, kind="validate")
    assert buffer.outbox.steps("e") == 1 + 2
    assert [vote.round for vote in buffer.outbox.kept_votes("e")] == [2, 1]
    for round in (1, 2):
        assert buffer.outbox.finished("e", round, request(round)).adapter is not None
        for adapter in (100, 200):
            found = buffer.outbox.finished("e", round, request(adapter + round))
            assert found.stats.validation_played == adapter
    finish(buffer, 2)
    assert buffer.outbox.steps("e") == 1 + 2, "work that is done again counts once"


def test_a_buffer_of_schema_3_knows_the_steps_of_its_answers(path: Path):
    with closing(Buffer(path)) as buffer:
        finish(buffer, 5)
    made_older(path, 3, "steps_taken")
    with closing(Buffer(path)) as buffer:
        assert buffer.outbox.steps("e") == 5
