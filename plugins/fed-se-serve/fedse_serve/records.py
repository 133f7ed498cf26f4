"""What the service records: sessions, turns and feedback in one SQLite file of its folder.

Rows are not changed once they are there; later feedback amends earlier. A call of a writing method
is one transaction, so a thread that writes can commit many turns at once. Any thread may read.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedse.errors import StoreError, boundary
from fedse.redact.episode import Redactor
from fedse.store.database import Database
from fedse.store.resealing import FileSeal, key_id_of
from fedse.store.sealing import Seal
from fedse.store.sweeping import finish_sweep
from fedse.types import Clock, canonical_json
from fedse_serve.marks import Marks, open_marks
from fedse_serve.packing import pack_ids, pack_numbers
from fedse_serve.redaction import Content, redact_turn, redact_value
from fedse_serve.rows import FeedbackRow, NewSession, Pin, TurnRecord, Value
from fedse_serve.schema import FILE, open_file, transaction

PIN = "SELECT arm, adapter, learn, held_out FROM session WHERE session = ?"
COUNTED = "UPDATE session SET turns = turns + 1, last = max(last, ?) WHERE session = ?"
BEFORE = (
    "SELECT number, prompt_tokens + sampled_tokens, mark, redacted FROM turn"
    " WHERE session = ? AND mark NOT NULL AND prompt_tokens + sampled_tokens <= ?"
    " ORDER BY 2 DESC, 1 DESC"
)
NEWEST = (
    "SELECT id, content FROM feedback WHERE session = ? AND inference IS ? AND metric = ?"
    " ORDER BY at DESC, number DESC LIMIT 1"
)


class Records:
    """The open records of one service; `open_records` opens them."""

    def __init__(
        self,
        path: Path,
        marks: Marks,
        seal: Seal,
        redact: Redactor | None,
        held_out: float,
        clock: Clock,
    ) -> None:
        self.path, self.marks, self.seal = path, marks, FileSeal(seal, path)
        self._redact, self._held_out, self._clock = redact, held_out, clock
        self._own = threading.local()

    @property
    def db(self) -> Database:
        """This thread's connection: SQLite's are not shared between threads."""
        db: Database | None = getattr(self._own, "db", None)
        if db is None:
            with boundary(StoreError, f"records {self.path}"):
                db = self._own.db = open_file(self.path)
        return db

    def close(self) -> None:
        """This thread's connection is closed; it opens again when it is needed."""
        self.db.close()
        self._own.db = None

    def begin(
        self,
        session: str,
        *,
        person: str | None,
        application: str,
        arm: str,
        adapter: str,
        learn: bool,
        share: float = 0.0,
    ) -> Pin:
        """The session is on record; one that was keeps its first pin."""
        new = NewSession(session, person, application, arm, adapter, learn, share)
        return self.begin_all([new])[0]

    def begin_all(self, new: Sequence[NewSession]) -> list[Pin]:
        """All of them are on record; one that was keeps its first pin."""
        at = self._clock()
        with transaction(self.db):
            return [self._begin(one, at) for one in new]

    def _begin(self, new: NewSession, at: float) -> Pin:
        if there := self.pin_of(new.session):
            return there
        person = None if new.person is None else self.marks.person(new.person)
        query = "SELECT 1 FROM forgotten WHERE person = ?"
        # Somebody who was forgotten is served, and not learned about again.
        learn = new.learn and not self.db.execute(query, (person,)).fetchone()
        held_out = self.marks.is_held_out(person or new.session, self._held_out)
        hidden = self.seal.hide(new.session)
        facts = (new.application, new.arm, new.adapter, new.share, learn, held_out)
        self.db.execute(
            "INSERT INTO session (session, first, last, person, application, arm, adapter, share,"
            " learn, held_out) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (hidden, at, at, person, *facts),
        )
        return Pin(new.session, new.arm, new.adapter, learn, held_out)

    def pin_of(self, session: str) -> Pin | None:
        """What was decided when the session began; None = it is not on record."""
        row = self.db.execute(PIN, (self.seal.hide(session),)).fetchone()
        return Pin(session, row[0], row[1], bool(row[2]), bool(row[3])) if row else None

    def end(self, session: str, at: float) -> None:
        """The session has ended, as the application says; the first time counts."""
        with transaction(self.db):
            query = "UPDATE session SET ended = ? WHERE session = ? AND ended IS NULL"
            self.db.execute(query, (at, self.seal.hide(session)))

    def add_turns(self, turns: Sequence[TurnRecord]) -> int:
        """All `turns` are stored, but for those that were before; how many are new.

        A turn of a session that is not on record, because a person was forgotten, is left out.
        """
        with transaction(self.db):
            return sum(map(self._add_turn, turns))

    def _add_turn(self, turn: TurnRecord) -> bool:
        hidden = self.seal.hide(turn.session)
        query = "SELECT learn, turns FROM session WHERE session = ?"
        session = self.db.execute(query, (hidden,)).fetchone()
        query = "SELECT 1 FROM turn WHERE inference = ?"
        if session is None or self.db.execute(query, (turn.inference,)).fetchone():
            return False
        learn, number = session[0], session[1] + 1
        self.db.execute(COUNTED, (turn.at, hidden))
        content = self._content(turn, hidden, number) if learn else (None, None, False, False, None)
        counts = (len(turn.prompt_ids), len(turn.sampled_ids))
        served = (turn.at, turn.arm, turn.adapter, turn.template, turn.finish)
        self.db.execute(
            f"INSERT INTO turn VALUES ({', '.join('?' * 20)})",
            (hidden, number, turn.inference, *served, *turn.guards, *counts, *content),
        )
        return True

    def _content(self, turn: TurnRecord, hidden: str, number: int) -> tuple[Any, ...]:
        """Parent, mark, redacted, learned and body of a turn."""
        parent, length, redacted = self._continued(turn.prompt_ids, hidden)
        made = self._redacted(turn, length)
        mark = self.marks.of_ids([*turn.prompt_ids, *turn.sampled_ids]) if turn.prompt_ids else None
        redacted = redacted or made.redacted
        body = json.dumps(
            [
                made.sampling,
                made.observation,
                made.reply,
                pack_ids(made.given_ids),
                pack_ids(made.sampled_ids),
                pack_numbers(() if redacted else made.log_probs),
            ]
        )
        return (
            parent,
            mark,
            redacted,
            made.learned,
            self.seal.close(body, ("turn", hidden, number)),
        )

    def _continued(self, prompt: Sequence[int], hidden: str) -> tuple[int | None, int, bool]:
        """The turn whose prompt and reply `prompt` begins with, their tokens, and if redacted."""
        marks: dict[int, bytes] = {}
        for number, length, mark, redacted in self.db.execute(BEFORE, (hidden, len(prompt))):
            if length not in marks:
                marks[length] = self.marks.of_ids(prompt[:length])
            if marks[length] == mark:
                return number, length, bool(redacted)
        return None, 0, False

    def _redacted(self, turn: TurnRecord, known: int) -> Content:
        content = Content(
            turn.observation,
            turn.reply,
            canonical_json(dict(turn.sampling)).decode(),
            turn.prompt_ids[known:],
            turn.sampled_ids,
            turn.log_probs,
        )
        if self._redact is None:
            return content
        before = {"shown": turn.earlier_shown, "said": turn.earlier_said}
        return redact_turn(content, self._redact, self._letters(turn.session), **before)

    def _letters(self, session: str) -> Callable[[str], str]:
        return lambda value: self.marks.letters(session, value)

    def add_feedback(self, rows: Sequence[FeedbackRow]) -> list[str | None]:
        """All `rows` are stored; the id of each, None = there is no such session or turn.

        The same idempotency key, or without one the same content as the newest feedback of that
        metric, is the feedback that is there.
        """
        with transaction(self.db):
            return [self._add_feedback(row) for row in rows]

    def _add_feedback(self, row: FeedbackRow) -> str | None:
        hidden, learn = self._subject(row)
        if hidden is None:
            return None
        key = None if row.key is None else self.marks.feedback("key", row.key)
        there = self.db.execute("SELECT id FROM feedback WHERE key = ?", (key,)).fetchone()
        if there:
            return str(there[0])
        content = self.marks.feedback(canonical_json([row.value, dict(row.tags)]).decode())
        about = (hidden, row.inference, row.metric)
        newest = self.db.execute(NEWEST, about).fetchone()
        if newest and key is None and newest[1] == content:
            return str(newest[0])
        (number,) = self.db.execute("SELECT coalesce(max(number), 0) + 1 FROM feedback").fetchone()
        made = self.marks.feedback("id", hidden, row.metric, str(number), str(row.at))
        said = self._said(row, self.seal.show(hidden)) if learn else _counted(row)
        body = self.seal.close(canonical_json(said).decode(), ("feedback", made))
        self.db.execute(
            f"INSERT INTO feedback VALUES ({', '.join('?' * 9)})",
            (number, made, key, content, *about, row.at, body),
        )
        return made

    def _subject(self, row: FeedbackRow) -> tuple[str | None, bool]:
        """The hidden name of the session that the feedback is about, and if it is learned from."""
        query, name = "SELECT session, learn FROM session WHERE session = ?", row.session
        if name is not None:
            name = self.seal.hide(name)
        else:
            query = (
                "SELECT session, learn FROM turn JOIN session USING (session) WHERE inference = ?"
            )
            name = row.inference
        found = self.db.execute(query, (name,)).fetchone()
        return (found[0], bool(found[1])) if found else (None, False)

    def _said(self, row: FeedbackRow, session: str) -> tuple[Value, dict[str, str]]:
        if self._redact is None:
            return row.value, dict(row.tags)
        redactor, letters = self._redact, self._letters(session)

        def clean(value: Any) -> Any:
            if isinstance(value, str):
                return redact_value(value, redactor, letters)
            if isinstance(value, list):
                return [clean(one) for one in value]
            if isinstance(value, dict):
                return {clean(name): clean(one) for name, one in value.items()}
            return value

        return clean(row.value), clean(dict(row.tags))


def _counted(row: FeedbackRow) -> tuple[Value, dict[str, str]]:
    """What is kept of feedback about a session that nothing may be learned from: no text."""
    return (row.value if isinstance(row.value, bool | int | float) else ""), {}


def open_records(
    folder: Path, *, seal: Seal, redact: Redactor | None, held_out: float, clock: Clock
) -> Records:
    """The records in `folder`, made if there were none; `seal` must be the one they are under."""
    with boundary(StoreError, f"records in {folder}"):
        marks = open_marks(folder)
        records = Records(folder / FILE, marks, seal, redact, held_out, clock)
        _require_seal(records.db, seal)
        finish_sweep(records.db)
    return records


def _require_seal(db: Database, seal: Seal) -> None:
    own = key_id_of(db)
    if own == seal.key_id:
        return
    if own or db.execute("SELECT 1 FROM session LIMIT 1").fetchone():
        command = f"fedse privacy encrypt{' --rotate' if own else ''} --home {db.path.parents[1]}"
        back = "put the key back that [storage] key in site.toml named when it was made"
        raise StoreError(
            f"{db.path} is written with {own or 'no key'},"
            f" the site's key is {seal.key_id or 'none'}",
            hint=f"{back}; if a change of keys was cut short: {command}" if own else command,
        )
    with transaction(db):
        db.execute("INSERT INTO sealed VALUES (?)", (seal.key_id,))
