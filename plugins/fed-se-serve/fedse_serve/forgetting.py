"""Remove what must not be kept: old sessions, a person's sessions, what consent was taken from."""

from collections.abc import Sequence
from typing import NamedTuple

from fedse.store.database import Database
from fedse.store.sweeping import empty_log, note_unswept, sweep
from fedse_serve.records import Records
from fedse_serve.schema import transaction

TABLES = ("feedback", "harvest", "turn", "session")
TEXTS = ("comment", "demonstration")


class Forgotten(NamedTuple):
    """How many rows are gone."""

    sessions: int
    turns: int
    feedback: int


def forget_before(records: Records, time: float) -> Forgotten:
    """No session whose last turn was before `time` is on record.

    SQLite overwrites what is deleted, and its log is emptied now, or, if somebody reads the file,
    when the records are opened next.
    """
    db = records.db
    with transaction(db):
        rows = db.execute("SELECT session FROM session WHERE last < ?", (time,)).fetchall()
        gone = _delete(db, [session for (session,) in rows])
        if gone.sessions:
            note_unswept(db, "retention")
    if gone.sessions and empty_log(db):
        with transaction(db):
            db.execute("DELETE FROM unswept WHERE reason = 'retention'")
    return gone


def forget_person(records: Records, name: str, at: float) -> Forgotten:
    """Nothing of the person's sessions is in the file, and nothing is learned of later ones.

    What stays is a keyed digest of the name, by which the person is recognised.
    """
    db, person = records.db, records.marks.person(name)
    with transaction(db):
        rows = db.execute("SELECT session FROM session WHERE person = ?", (person,)).fetchall()
        gone = _delete(db, [session for (session,) in rows])
        db.execute("INSERT OR IGNORE INTO forgotten VALUES (?, ?)", (person, at))
        note_unswept(db, "a person")
    sweep(db)
    return gone


def withdraw(records: Records, session: str) -> None:
    """Nothing can be learned from the session: counts and guard facts are all that is left."""
    db, hidden = records.db, records.seal.hide(session)
    with transaction(db):
        db.execute("UPDATE session SET learn = 0 WHERE session = ?", (hidden,))
        db.execute(
            "UPDATE turn SET body = NULL, mark = NULL, parent = NULL WHERE session = ?", (hidden,)
        )
        marks = ", ".join("?" * len(TEXTS))
        db.execute(
            f"DELETE FROM feedback WHERE session = ? AND metric IN ({marks})", (hidden, *TEXTS)
        )
        note_unswept(db, "consent")
    sweep(db)


def _delete(db: Database, sessions: Sequence[str]) -> Forgotten:
    counts = dict.fromkeys(TABLES, 0)
    for table in TABLES:
        for session in sessions:
            found = db.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
            counts[table] += found.rowcount
    return Forgotten(counts["session"], counts["turn"], counts["feedback"])
