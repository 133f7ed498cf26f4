"""Forgetting a person: no row and no byte is left, and nobody else is touched."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.errors import EnvError, StoreError
from fedse.protocol import SiteReply
from fedse.store import sweeping
from fedse.store.buffer import RolloutPart
from fedse.store.database import DamageNamingCursor
from fedse.store.erasure import Erasure
from fedse.store.exported import ExportedFile
from fedse.types import ClientStats
from tests.needs import needs
from tests.store.subjects import (
    PERSONS,
    SEALS,
    bytes_of,
    content_of,
    episode,
    fill,
    opened,
    subject_of,
    told,
)

needs("cryptography")

ADA = PERSONS[0]
NUMBERS = range(6)


def forget(buffer, subject: str = ADA) -> Erasure | None:
    found = buffer.erasures.find(subject)
    if not found.rows:
        return None
    pieces = buffer.erasures.pieces(found)
    erasure = buffer.erasures.forget(subject, found, made=5.0)
    buffer.erasures.sweep_away(pieces)
    return erasure


@pytest.mark.parametrize("kind", SEALS)
def test_no_row_and_no_byte_is_left(tmp_path: Path, kind: str):
    path = tmp_path / "buffer.db"
    with closing(opened(path, SEALS[kind]())) as buffer:
        fill(buffer, NUMBERS)
        assert (ADA.encode() in bytes_of(path)) == (kind == "plain")
        hidden = buffer._seal.hide(ADA).encode()
        assert hidden in bytes_of(path)
        erasure = forget(buffer)
        assert erasure is not None
        assert (erasure.lessons, erasure.games, erasure.parts) == (2, 2, 2)
        assert erasure.seen == {"e": 1}
        left = bytes_of(path)
        assert hidden not in left
        assert all(piece not in left for n in (0, 3) for piece in slices(told(n)))
        assert [lesson.task.id for lesson in buffer.lessons("e", 9)] == ["1", "2", "4", "5"]
        assert [game.task for game in buffer.games("e")] == ["1", "2", "4", "5"]
        parts = [buffer.part(RolloutPart("e", 1, "train", n, f"{n:064d}")) for n in NUMBERS]
        assert [part is None for part in parts] == [True, False, False, True, False, False]
    assert ADA.encode() not in bytes_of(path)


def slices(text: str) -> list[bytes]:
    return [text.encode()[start : start + 24] for start in range(0, len(text) - 24, 24)]


@pytest.mark.parametrize("kind", SEALS)
@settings(max_examples=5, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True),
    rounds=st.integers(1, 3),
    who=st.sampled_from(PERSONS),
)
def test_a_buffer_that_forgot_is_one_that_never_knew(
    kind: str, numbers: list[int], rounds: int, who: str
):
    """Lessons of the others keep their digests and their order, and forgetting twice is once."""
    others = [n for n in numbers if subject_of_number(n) != who]
    with TemporaryDirectory() as folder:
        knew, never = Path(folder) / "knew.db", Path(folder) / "never.db"
        with (
            closing(opened(knew, SEALS[kind]())) as one,
            closing(opened(never, SEALS[kind]())) as two,
        ):
            for round in range(1, rounds + 1):
                fill(one, numbers, round=round)
                fill(two, others, round=round)
            forget(one, who)
            assert digests(one) == digests(two)
            assert sightings(one) == sightings(two)
            assert one.kept_by_task("e", before=9) == two.kept_by_task("e", before=9)
            assert one.tallies("e", before=9) == two.tallies("e", before=9)
            once, erased = content_of(one), one.erasures.all()
            assert forget(one, who) is None
            assert (content_of(one), one.erasures.all()) == (once, erased)


def digests(buffer) -> list[str]:
    return [lesson.digest for lesson in buffer.lessons("e", 9)]


def sightings(buffer) -> list[tuple[object, ...]]:
    return buffer._db.execute("SELECT * FROM sighting").fetchall()


def subject_of_number(number: int) -> str:
    return PERSONS[number % len(PERSONS)]


@pytest.mark.parametrize("kind", SEALS)
def test_what_was_stored_before_subjects_were_known_is_found_by_its_task(tmp_path: Path, kind: str):
    path = tmp_path / "buffer.db"
    with closing(opened(path, SEALS[kind](), subject_of=lambda task: None)) as buffer:
        fill(buffer, NUMBERS)

    def gone(task):
        if task.id == "5":
            raise EnvError("no such task")
        return subject_of(task)

    with closing(opened(path, SEALS[kind](), subject_of=gone)) as buffer:
        found = buffer.erasures.find(ADA)
        assert (len(found.lessons), len(found.games), len(found.parts)) == (2, 2, 2)
        assert found.tasks == {("desk", "0"), ("desk", "3")}
        assert found.unknown == 2


def test_it_is_not_learned_about_again(tmp_path: Path):
    with closing(opened(tmp_path / "b.db")) as buffer:
        fill(buffer, NUMBERS)
        forget(buffer)
        fill(buffer, NUMBERS, round=2)
        assert [lesson.task.id for lesson in buffer.lessons("e", 9)] == ["1", "2", "4", "5"]
    with closing(opened(tmp_path / "b.db")) as buffer:
        assert buffer.erasures.is_forgotten(ADA)
        assert not buffer.erasures.is_forgotten(PERSONS[1])
        assert not buffer.erasures.is_forgotten(None)


def test_a_demonstration_counts_from_the_beginning_and_moments_go(tmp_path: Path):
    with closing(opened(tmp_path / "b.db")) as buffer:
        fill(buffer, [3], round=2)
        fill(buffer, [0], round=0)
        reply = SiteReply(ClientStats(), b"adapter")
        buffer.outbox.finish("e", 2, "a", reply, moments=b"moments")
        buffer.outbox.finish("other", 7, "a", reply, moments=b"moments")
        found = buffer.erasures.find(ADA)
        # Another experiment learns from what this one brought.
        assert found.seen == {"e": 0, "other": 0}
        forget(buffer)
        assert buffer.outbox.moments("e", before=9) is None
        assert buffer.outbox.finished("e", 2, "a") == reply


def test_failed_games_count_where_they_are_learned_from(tmp_path: Path):
    with closing(opened(tmp_path / "b.db")) as buffer:
        lost = episode(0, round=3, outcome="failure")
        buffer.record_played([lost], experiment="e", bodies=True)
        assert buffer.erasures.find(ADA).seen == {}
        assert buffer.erasures.find(ADA, failures=True).seen == {"e": 3}


def test_others_that_mention_the_name_are_counted_and_stay(tmp_path: Path):
    with closing(opened(tmp_path / "b.db")) as buffer:
        fill(buffer, [0, 1])
        told_of = episode(1, round=2).turns[0].model_copy(update={"action": f"ask {ADA}"})
        other = episode(1, round=2).model_copy(update={"turns": (told_of,)})
        buffer.add([other], experiment="e")
        assert buffer.erasures.find(ADA).mentioned == 1
        forget(buffer)
        assert other in [*buffer.lessons("e", 9)]


@pytest.mark.parametrize("kind", SEALS)
def test_exports_that_hold_it_are_named(tmp_path: Path, kind: str):
    with closing(opened(tmp_path / "b.db", SEALS[kind]())) as buffer:
        fill(buffer, NUMBERS)
        for name, tasks in (("x", {("desk", "0"), ("desk", "1")}), ("y", {("desk", "2")})):
            made = ExportedFile(path=name, made=1.0, episodes=2)
            buffer.exports.note(made, tasks)
        found = buffer.erasures.find(ADA)
        assert [one.path for one in buffer.exports.about(found.tasks)] == ["x"]
        forget(buffer)
        assert buffer.exports.about(found.tasks) == []
        assert [one.path for one in buffer.exports.all()] == ["x", "y"]


def test_what_is_left_in_a_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A sweep that does nothing is not believed."""
    monkeypatch.setattr("fedse.store.erasure.sweep", lambda db: None)
    with closing(opened(tmp_path / "b.db")) as buffer:
        fill(buffer, NUMBERS)
        with pytest.raises(StoreError, match="still holds"):
            forget(buffer)


def test_words_that_others_have_as_well_are_no_remnant(tmp_path: Path):
    with closing(opened(tmp_path / "b.db")) as buffer:
        same = episode(1).model_copy(update={"turns": episode(0).turns})
        buffer.add([episode(0), same], experiment="e")
        assert forget(buffer) is not None
        assert [*buffer.lessons("e", 9)] == [same]


def test_a_reader_keeps_the_log_from_being_emptied_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "b.db"
    with closing(opened(path)) as buffer, closing(sqlite3.connect(path)) as reader:
        fill(buffer, NUMBERS)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM trajectory").fetchone()
        buffer._db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(StoreError, match="being read"):
            forget(buffer)
        assert told(0).encode()[:48] in bytes_of(path)
        reader.rollback()
    with closing(opened(path)):
        # Whoever opens the file next finishes the work.
        assert told(0).encode()[:48] not in bytes_of(path)


def kill_after(path: Path, statements: int, kind: str) -> bool:
    """Another process forgets and is killed before so many statements more; whether it was."""
    child = os.fork()
    if child == 0:
        left, plain = [statements], DamageNamingCursor.execute

        def counted(self, *given):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return plain(self, *given)

        buffer = opened(path, SEALS[kind]())
        DamageNamingCursor.execute = counted
        forget(buffer)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


def test_a_sweep_that_a_kill_prevented_is_done_at_the_next_opening(tmp_path: Path):
    path = tmp_path / "b.db"
    with closing(opened(path)) as buffer:
        fill(buffer, NUMBERS)
    child = os.fork()
    if child == 0:
        buffer = opened(path)
        buffer.erasures.forget(ADA, buffer.erasures.find(ADA), made=1.0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert ADA.encode() in bytes_of(path)
    with closing(opened(path)) as buffer:
        assert ADA.encode() not in bytes_of(path)
        assert len(buffer.erasures.of(ADA)) == 1


@pytest.mark.parametrize("kind", SEALS)
def test_a_kill_at_any_statement_leaves_before_or_after(tmp_path: Path, kind: str):
    """And after the next opening, where it is after, no byte."""

    def filled(place: Path) -> Path:
        with closing(opened(place, SEALS[kind]())) as buffer:
            fill(buffer, NUMBERS)
        return place

    with closing(opened(filled(tmp_path / "before.db"), SEALS[kind]())) as buffer:
        before = content_of(buffer)
        forget(buffer)
        after = content_of(buffer)
    met, statements = set(), 0
    while kill_after(path := filled(tmp_path / f"{statements}.db"), statements, kind):
        statements += 3
        with closing(opened(path, SEALS[kind]())) as buffer:
            found, erased = content_of(buffer), buffer.erasures.all()
            assert (found, len(erased)) in [(before, 0), (after, 1)]
            met.add(len(erased))
            if erased:
                assert ADA.encode() not in bytes_of(path)
            forget(buffer)
            assert content_of(buffer) == after
            assert len(buffer.erasures.all()) == 1
    assert met == {0, 1}
    assert statements > 20


def test_the_mark_tells_nothing_without_the_salt(tmp_path: Path):
    with closing(opened(tmp_path / "a.db")) as one, closing(opened(tmp_path / "b.db")) as two:
        marks = set()
        for buffer in (one, two):
            fill(buffer, NUMBERS)
            erasure = forget(buffer)
            assert erasure is not None
            assert ADA not in erasure.model_dump_json()
            marks.add(erasure.mark)
        assert len(marks) == 2


def test_every_piece_of_a_text_is_looked_for():
    text = "x" * sweeping.EVERY + "y" * sweeping.EVERY
    assert [piece[:1] for piece in sweeping.windows_of(text)] == [b"x", b"y"]
