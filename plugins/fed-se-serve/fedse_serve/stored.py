"""Read what the service has on record."""

import json
from collections.abc import Iterator
from typing import Any

from fedse_serve.packing import unpack_ids, unpack_numbers
from fedse_serve.records import Records
from fedse_serve.rows import Conversation, Guards, StoredFeedback, StoredSession, StoredTurn

SESSION = (
    "SELECT session, first, last, person, application, arm, adapter, share, learn, held_out, ended,"
    " turns FROM session"
)
TURN = (
    "SELECT number, inference, at, arm, adapter, template, finish, invalid_calls, asked, refused,"
    " error, seconds, prompt_tokens, sampled_tokens, parent, redacted, learned, body FROM turn"
    " WHERE session = ? ORDER BY number"
)
FEEDBACK = (
    "SELECT id, inference, metric, at, body FROM feedback WHERE session = ? ORDER BY at, number"
)


def sessions(records: Records, *, since: float = 0.0) -> Iterator[StoredSession]:
    """Those with a turn at `since` or later, the oldest turn first."""
    query = f"{SESSION} WHERE last >= ? ORDER BY last, session"
    for row in records.db.execute(query, (since,)):
        yield _session(records, row)


def sessions_without(records: Records, metric: str) -> Iterator[StoredSession]:
    """Those about which nothing was reported under that name, the oldest turn first."""
    query = (
        f"{SESSION} WHERE NOT EXISTS (SELECT 1 FROM feedback WHERE feedback.session ="
        " session.session AND metric = ?) ORDER BY last, session"
    )
    for row in records.db.execute(query, (metric,)):
        yield _session(records, row)


def session_named(records: Records, session: str) -> StoredSession | None:
    hidden = records.seal.hide(session)
    row = records.db.execute(f"{SESSION} WHERE session = ?", (hidden,)).fetchone()
    return _session(records, row) if row else None


def conversations(records: Records) -> Iterator[Conversation]:
    """Every session with its turns and what was reported, the oldest turn first."""
    for session in list(sessions(records)):
        name = session.session
        yield Conversation(session, turns_of(records, name), feedback_of(records, name))


def turns_of(records: Records, session: str) -> list[StoredTurn]:
    """In the order in which they were recorded."""
    hidden = records.seal.hide(session)
    return [_turn(records, session, hidden, row) for row in records.db.execute(TURN, (hidden,))]


def feedback_of(records: Records, session: str) -> list[StoredFeedback]:
    """About the session and its turns, in the order of arrival."""
    found = []
    hidden = records.seal.hide(session)
    for made, inference, metric, at, body in records.db.execute(FEEDBACK, (hidden,)):
        value, tags = json.loads(records.seal.open(body, ("feedback", made)))
        found.append(StoredFeedback(made, session, inference, metric, value, at, tags))
    return found


def _session(records: Records, row: tuple[Any, ...]) -> StoredSession:
    hidden, first, last, person, application, arm, adapter, share = row[:8]
    learn, held_out, ended, turns = row[8:]
    served = (application, arm, adapter, share, bool(learn), bool(held_out))
    return StoredSession(records.seal.show(hidden), first, last, person, *served, ended, turns)


def _turn(records: Records, session: str, hidden: str, row: tuple[Any, ...]) -> StoredTurn:
    number, inference, at, arm, adapter, template, finish = row[:7]
    calls, asked, refused, error, seconds = row[7:12]
    prompt, sampled, parent, redacted, learned, body = row[12:]
    content: list[Any] = ["{}", "", "", "", "", ""]
    if body is not None:
        content = json.loads(records.seal.open(body, ("turn", hidden, number)))
    settings, observation, reply, given, said, chances = content
    return StoredTurn(
        inference=inference,
        session=session,
        number=number,
        at=at,
        arm=arm,
        adapter=adapter,
        template=template,
        finish=finish,
        guards=Guards(calls, bool(asked), bool(refused), error, seconds),
        prompt_tokens=prompt,
        sampled_tokens=sampled,
        parent=parent,
        redacted=bool(redacted),
        learned=bool(learned),
        sampling=_settings(settings),
        observation=observation,
        reply=reply,
        given_ids=unpack_ids(given),
        sampled_ids=unpack_ids(said),
        log_probs=unpack_numbers(chances),
    )


def _settings(text: str) -> dict[str, Any]:
    """Sampling settings; a pseudonym in their text may have made it unreadable as JSON."""
    try:
        return dict(json.loads(text))
    except ValueError:
        return {"unread": text}
