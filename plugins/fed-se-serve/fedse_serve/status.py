"""Who serves, how they do and what is known of it: for people, programs and the page."""

from collections import defaultdict
from datetime import UTC, datetime

from fedse.stats.rates import Rate
from fedse.types import Record
from fedse_serve.canary import Decision
from fedse_serve.labels import Label, coverage, label_of
from fedse_serve.moves import Move
from fedse_serve.records import Records
from fedse_serve.registry import Registry
from fedse_serve.rows import StoredSession
from fedse_serve.settings import ServiceSettings
from fedse_serve.stored import feedback_of, sessions
from fedse_serve.trial import trial_so_far


class Day(Record):
    """The sessions of one day that one adapter served from their beginning."""

    day: str
    adapter: str
    sessions: int
    labelled: int
    successes: int

    @property
    def rate(self) -> Rate:
        return Rate(self.successes, self.labelled)


class Moved(Record):
    """A move of an adapter, and when it was."""

    time: float
    move: Move


class ArmCoverage(Record):
    """How many of an arm's sessions have a label."""

    arm: str
    labelled: int
    unlabelled: int
    waiting: int


class Status(Record):
    """Everything that the page shows."""

    current: str | None
    pinned: bool
    candidate: str | None
    share: float
    waiting: str | None
    decision: Decision | None
    """About the candidate, if it serves."""
    days: tuple[Day, ...]
    coverage: tuple[ArmCoverage, ...]
    moves: tuple[Moved, ...]


def status_of(
    records: Records, registry: Registry, settings: ServiceSettings, *, now: float
) -> Status:
    """As of `now`."""
    state, labelled = registry.state, labels(records, settings, now)
    one = state.candidate
    on_trial = one is not None and one.share > 0
    arms = coverage((session.arm, label) for session, label in labelled)
    return Status(
        current=state.current,
        pinned=state.pinned,
        candidate=one.adapter if one else None,
        share=one.share if one else 0.0,
        waiting=state.waiting.adapter if state.waiting else None,
        decision=trial_so_far(records, one, settings, now=now) if one and on_trial else None,
        days=tuple(days_of(labelled)),
        coverage=tuple(ArmCoverage(arm=arm, **found._asdict()) for arm, found in arms.items()),
        moves=tuple(Moved(time=at, move=move) for at, move in registry.history),
    )


Labelled = list[tuple[StoredSession, Label]]


def labels(records: Records, settings: ServiceSettings, now: float) -> Labelled:
    """Every session on record with what is known of it."""
    return [
        (one, label_of(one, feedback_of(records, one.session), settings, now))
        for one in sessions(records)
    ]


def days_of(labelled: Labelled) -> list[Day]:
    """By the day on which sessions began (UTC) and by adapter."""
    groups: dict[tuple[str, str], list[Label]] = defaultdict(list)
    for session, label in labelled:
        day = datetime.fromtimestamp(session.first, UTC).date().isoformat()
        groups[day, session.adapter].append(label)
    return [
        Day(
            day=day,
            adapter=adapter,
            sessions=len(found),
            labelled=sum(label.success is not None for label in found),
            successes=sum(label.success is True for label in found),
        )
        for (day, adapter), found in sorted(groups.items())
    ]


def status_lines(status: Status) -> list[str]:
    """For a terminal, at most 80 columns but for reasons."""
    pinned = ", pinned" if status.pinned else ""
    lines = [f"serving    {named(status.current)}{pinned}"]
    if status.candidate:
        lines.append(f"candidate  {named(status.candidate)}, {100 * status.share:g} % of sessions")
    if status.decision:
        lines.append(f"           {status.decision.verdict}: {status.decision.reason}")
    if status.waiting:
        lines.append(f"waiting    {named(status.waiting)}")
    for arm in status.coverage:
        over = arm.labelled + arm.unlabelled
        lines.append(f"{arm.arm:<10} {arm.labelled} of {over} ended sessions have a label")
        lines[-1] += f", {arm.waiting} may still get one" if arm.waiting else ""
    for day in status.days:
        rate = f"{day.rate.value:.2f}" if day.labelled else "  - "
        counts = f"{day.labelled} labelled of {day.sessions}"
        lines.append(f"{day.day}  {named(day.adapter)}  {rate}  {counts}")
    for moved in status.moves:
        at = datetime.fromtimestamp(moved.time, UTC).strftime("%Y-%m-%d %H:%M")
        share = f" {100 * moved.move.share:g} %" if moved.move.share else ""
        why = f": {moved.move.reason}" if moved.move.reason else ""
        lines.append(f"{at}  {named(moved.move.adapter)}  {moved.move.kind}{share}{why}")
    return lines


def named(adapter: str | None) -> str:
    """How an adapter is called in a table."""
    return adapter[:12] if adapter else "base model"
