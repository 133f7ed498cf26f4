"""What comes before a round: its time, and sites with something new to learn from.

What is waited for, and who said what, is on disk before anything follows from it. So a run that was
stopped keeps its times, and goes on with the same sites in a round that had begun.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from fedse.config.schedule import MINUTE, ScheduleSection
from fedse.drivers.collecting import announce
from fedse.drivers.consent import with_consent
from fedse.drivers.round import OpenRound
from fedse.errors import RunError
from fedse.method.site import Answer
from fedse.protocol import NEWS, Delivery
from fedse.store.next_round import NextRound, is_to_stop, read_next, write_next
from fedse.store.run import Run
from fedse.types import ClientStats, Clock

LOOK_SECONDS = 1.0
"""Between two looks at the clock, and for somebody who wants the run to stop."""
Sleep = Callable[[float], None]


def begin(r: OpenRound, *, clock: Clock, sleep: Sleep) -> OpenRound | None:
    """The round, when it is time and enough sites have news; None = the run is to stop first."""
    run, schedule = r.run, r.run.config.schedule
    planned = _planned(r, now=clock())
    while _waited(run, planned, clock=clock, sleep=sleep):
        r = with_consent(r, clock=clock)
        if schedule == ScheduleSection():
            return r
        if len(planned.having) < schedule.news:
            planned = _with_news(r, planned, now=clock())
            continue
        if not planned.begun:
            planned = planned.model_copy(update={"at": clock(), "begun": True, "reason": ""})
            write_next(run.path, planned)
        return _of_those(r, planned)
    return None


def put_off(r: OpenRound, reason: str, *, now: float) -> None:
    """The round is tried again in a minute; a run that has an end ends with an error instead."""
    if not r.run.config.run.open:
        raise RunError(
            f"round {r.index} has {reason}", hint=f"fix the cause, then: fedse resume {r.run.path}"
        )
    kept = read_next(r.run.path)
    news = kept.news if kept and kept.round == r.index else None
    _plan(r.run, NextRound(round=r.index, at=now + MINUTE, news=news, reason=f"it had {reason}"))


def _planned(r: OpenRound, *, now: float) -> NextRound:
    """When the round begins, by what is on disk; not later than a schedule from now on has it."""
    schedule, kept = r.run.config.schedule, read_next(r.run.path)
    latest = schedule.again(now)
    if kept and kept.round == r.index:
        return kept.model_copy(update={"at": min(kept.at, latest)})
    known = kept is not None and kept.round == r.index - 1
    first = latest if schedule.at else now
    at = schedule.next(kept.at) if kept and known else first
    planned = NextRound(round=r.index, at=max(now, min(at, latest)))
    if planned.at > now:
        _plan(r.run, planned)
    return planned


def _plan(run: Run, planned: NextRound) -> None:
    """The plan is on disk and announced."""
    write_next(run.path, planned)
    date = datetime.fromtimestamp(planned.at, UTC)
    reason = f"{planned.reason}; " if planned.reason else ""
    run.emit(
        "round.waiting",
        round=planned.round,
        at=planned.at,
        reason=f"{reason}until {date:%Y-%m-%d %H:%M:%S} UTC",
    )


def _waited(run: Run, planned: NextRound, *, clock: Clock, sleep: Sleep) -> bool:
    """Whether it is time; False = somebody wants the run to stop."""
    while not is_to_stop(run.path):
        left = planned.at - clock()
        if left <= 0:
            return True
        sleep(min(left, LOOK_SECONDS))
    return False


def _with_news(r: OpenRound, before: NextRound, *, now: float) -> NextRound:
    """The plan after all sites that may take part were asked whether they have news."""
    out = {**r.out, **r.quarantined}
    told, asked = dict[str, bool](), [name for name in r.expected if name not in out]
    for delivery in r.ask(r.question("news", r.current), b"", of=asked):
        if delivery.client in asked and not delivery.exclusion:
            told.setdefault(delivery.client, delivery.adapter == NEWS)
    found = before.model_copy(update={"news": dict(sorted(told.items()))})
    schedule = r.run.config.schedule
    needed = schedule.news
    if len(found.having) >= needed:
        return found
    reason = f"{len(found.having)} of {needed} sites have news"
    waits = found.model_copy(update={"at": schedule.again(now), "reason": reason})
    if reason == before.reason:
        # Announced already; a log of years must not have a line for every minute.
        write_next(r.run.path, waits)
    else:
        _plan(r.run, waits)
    return waits


def _of_those(r: OpenRound, planned: NextRound) -> OpenRound:
    """Sites with news take part, those without have abstained, and nobody else is asked."""
    if planned.news is None:
        return r
    idle = sorted({*planned.news} - planned.having)
    for name in idle:
        announce(r, Delivery(name, ClientStats()))
    answers = {name: Answer(name, ClientStats(), None) for name in idle}
    return replace(r, news=planned.having, answers=answers)
