"""Old episodes go, all others stay, and a person can be forgotten as if nothing had gone."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.protocol import SiteReply
from fedse.store.buffer import Buffer
from fedse.store.resealing import reseal
from fedse.store.sealing import KeyedSeal
from fedse.types import ClientStats
from tests.needs import needs
from tests.store.subjects import PERSONS, SEALS, bytes_of, episode, opened, told

needs("cryptography")

Games = list[tuple[str, int, int, bool]]
"""Experiment, round, number of the task, and whether it was learned from."""
GAMES = st.lists(
    st.tuples(st.sampled_from(["e", "f"]), st.integers(0, 5), st.integers(0, 8), st.booleans()),
    max_size=14,
)
BOUNDS = st.dictionaries(st.sampled_from(["e", "f"]), st.integers(1, 5), min_size=1)


def fill(buffer: Buffer, games: Games) -> None:
    rounds: dict[tuple[str, int], list[tuple[int, bool]]] = {}
    for experiment, round, number, won in sorted(set(games)):
        rounds.setdefault((experiment, round), []).append((number, won))
    for (experiment, round), found in rounds.items():
        outcomes = {True: "success", False: "failure"}
        played = [episode(n, round=round, outcome=outcomes[won]) for n, won in found]
        buffer.add([one for one in played if one.success], experiment=experiment)
        buffer.record_played(played, experiment=experiment, bodies=True)
    for experiment in {"e", "f"}:
        buffer.outbox.finish(experiment, 1, experiment * 64, SiteReply(ClientStats()))


def is_old(experiment: str, round: int, last: dict[str, int]) -> bool:
    return 1 <= round <= last.get(experiment, 0)


def met(buffer: Buffer) -> list[tuple[str, int, int]]:
    """Experiment, round and task of every sighting of a stored lesson."""
    query = "SELECT s.experiment, s.round, task FROM trajectory JOIN sighting s USING (content)"
    rows = buffer._db.execute(query)
    return sorted((name, round, int(buffer._seal.show(task))) for name, round, task in rows)


def on_record(buffer: Buffer) -> list[tuple[str, int, int]]:
    return sorted((n, one.round, int(one.task)) for n in ("e", "f") for one in buffer.games(n))


@settings(max_examples=40, deadline=None)
@given(games=GAMES, last=BOUNDS, sealed=st.sampled_from(sorted(SEALS)))
def test_what_is_old_goes_and_forgetting_finds_the_same(
    games: Games, last: dict[str, int], sealed: str
):
    with (
        TemporaryDirectory() as folder,
        closing(opened(Path(folder) / "buffer.db", SEALS[sealed]())) as buffer,
    ):
        fill(buffer, games)
        found = {
            (person, failures): buffer.erasures.find(person, failures=failures).seen
            for person in PERSONS
            for failures in (False, True)
        }
        kept = [[one for one in rows if not is_old(*one[:2], last)] for rows in _both(buffer)]
        count = buffer.old.count(last)
        before = len(buffer), len(on_record(buffer))
        buffer.old.remove(last)
        assert _both(buffer) == kept
        assert count == (before[0] - len(buffer), before[1] - len(on_record(buffer)))
        for (person, failures), seen in found.items():
            assert buffer.erasures.find(person, failures=failures).seen == seen


def _both(buffer: Buffer) -> list[list[tuple[str, int, int]]]:
    return [met(buffer), on_record(buffer)]


@pytest.mark.parametrize("kind", SEALS)
def test_no_byte_of_it_is_left_and_no_name(tmp_path: Path, kind: str):
    path = tmp_path / "buffer.db"
    with closing(opened(path, SEALS[kind]())) as buffer:
        fill(buffer, [("e", 1, 0, True), ("e", 2, 1, True)])
        hidden = buffer._seal.hide(PERSONS[0]).encode()
        assert hidden in bytes_of(path)
        buffer.old.remove({"e": 1})
        held = bytes_of(path)
        assert hidden not in held
        assert told(0)[:40].encode() not in held
        assert buffer._seal.hide(PERSONS[1]).encode() in held


def test_a_person_is_forgotten_for_good_after_the_episodes_were_removed(tmp_path: Path):
    with closing(opened(tmp_path / "buffer.db")) as buffer:
        fill(buffer, [("e", 3, 0, True)])
        buffer.old.remove({"e": 3})
        assert not buffer.erasures.is_forgotten(PERSONS[0]), "age alone forbids nothing"
        found = buffer.erasures.find(PERSONS[0])
        assert (found.rows, len(found.removed)) == (0, 1)
        erasure = buffer.erasures.forget(PERSONS[0], found, made=1.0)
        assert erasure.seen == {"e": 3, "f": 0}
        assert buffer.erasures.is_forgotten(PERSONS[0])
        assert buffer.erasures.find(PERSONS[0]).removed == ()


def test_a_round_keeps_its_first_age_and_one_without_an_answer_has_that_of_the_next(
    tmp_path: Path,
):
    with closing(opened(tmp_path / "buffer.db")) as buffer:
        for round, now in ((1, 100.0), (3, 200.0), (1, 900.0)):
            buffer.old.note_answered("e", round, now)
        assert buffer.old.last_before(100.0) == {}
        assert buffer.old.last_before(150.0) == {"e": 1}
        assert buffer.old.last_before(250.0) == {"e": 3}
        buffer.old.remove({"e": 1})
        assert buffer.old.last_before(150.0) == {}


def test_what_is_kept_of_a_person_goes_over_to_another_key(tmp_path: Path):
    path, other = tmp_path / "buffer.db", KeyedSeal(bytes(32))
    with closing(opened(path, SEALS["sealed"]())) as buffer:
        fill(buffer, [("e", 1, 0, True)])
        buffer.old.remove({"e": 1})
        reseal(buffer._db, SEALS["sealed"](), other)
    with closing(opened(path, other)) as buffer:
        assert buffer.erasures.find(PERSONS[0]).seen == {"e": 1, "f": 0}
