"""The trial of a candidate, from what is on record.

A session is seen twice: when it has ended, with its flags, and when it has its label. What is seen
is put in the order of these times, so looking more often does not change what is decided.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from fedse_serve.canary import Decision, Seen, decide
from fedse_serve.guards import Limits, Totals, flags_of, limits_of
from fedse_serve.labels import ended_at, first_label
from fedse_serve.moves import Candidate
from fedse_serve.records import Records
from fedse_serve.rows import StoredSession
from fedse_serve.settings import ServiceSettings
from fedse_serve.stored import feedback_of, sessions

TOTALS = (
    "SELECT sum(invalid_calls), sum(error != ''), sum(refused), sum(asked), sum(sampled_tokens),"
    " max(seconds), count(DISTINCT adapter) FROM turn WHERE session = ?"
)
LEDGER_SECONDS = 0.001
"""To which the ledger, which says when a trial began, rounds its times."""
LIMIT_SESSIONS = 1000
"""Of the present adapter, the newest before the trial, by which long and slow are known."""


class Observed(NamedTuple):
    """What the turns of a session amount to."""

    totals: Totals
    mixed: bool


def trial_so_far(
    records: Records, candidate: Candidate, settings: ServiceSettings, *, now: float
) -> Decision:
    """The decision about the candidate at `now`."""
    began = candidate.began - LEDGER_SECONDS if candidate.began is not None else now
    limits = limits_before(records, settings, began)
    seen = [
        event
        for session in sessions(records, since=began)
        if session.first >= began and session.share > 0
        for event in _seen(records, session, settings, limits, now)
    ]
    return decide((one for _, one in sorted(seen, key=lambda one: one[0])), settings.canary)


def limits_before(records: Records, settings: ServiceSettings, began: float) -> Limits:
    """What is too long and too slow, by the last sessions that ended before the trial."""
    ended = [
        session
        for session in sessions(records)
        if session.last < began and ended_at(session, settings, began) is not None
    ]
    return limits_of(observed(records, one).totals for one in ended[-LIMIT_SESSIONS:])


def observed(records: Records, session: StoredSession) -> Observed:
    """The sums over the turns of a session."""
    row = records.db.execute(TOTALS, (records.seal.hide(session.session),)).fetchone()
    *facts, adapters = (value or 0 for value in row)
    return Observed(Totals(*facts), adapters > 1)


def _seen(
    records: Records,
    session: StoredSession,
    settings: ServiceSettings,
    limits: Limits,
    now: float,
) -> Iterator[tuple[float, Seen]]:
    ended = ended_at(session, settings, now)
    if ended is None:
        return
    turns = observed(records, session)
    arm: Literal["canary", "stable"] = "canary" if session.arm == "canary" else "stable"
    sticky = session.person if settings.sticky == "person" else None
    about = Seen(sticky or session.session, arm, session.share, mixed=turns.mixed)
    yield ended, about._replace(flags=flags_of(turns.totals, limits))
    label = first_label(session, feedback_of(records, session.session), settings, now)
    if label.success is not None and label.since is not None:
        yield label.since, about._replace(label=label.success)
