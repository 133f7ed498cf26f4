"""The first steps of an answer: the site's own rules.

A question about a round before the newest one the site finished is stale: a server that lost
nothing asks for the round after its last committed one, and no site has finished a later one. If
the answer is in the outbox it is sent again; otherwise it is refused without work, also where there
is no policy.
"""

from dataclasses import replace

from fedse.faults import Fault
from fedse.protocol import SUM_STAGES, Question, SiteReply
from fedse.site.rules import (
    VALIDATION,
    WORK,
    in_force,
    read_rules,
    require_allowed,
    require_budget,
    require_current,
    require_near,
)
from fedse.site.steps import Asked, Next
from fedse.types import ClientStats

TIMELESS = SUM_STAGES | {"agree"}
"""Questions that are not about the work of a round."""


def follow_rules(asked: Asked, rest: Next) -> SiteReply:
    """The site's rules, as they are now, allow the question; a paused site answers nothing."""
    if asked.policy is None:
        return rest(asked)
    rules = in_force(read_rules(asked.policy), asked.config)
    require_allowed(rules, asked.question, asked.config, asked.site.spec.nbytes)
    if rules.pause:
        asked.emit("site.paused", client=asked.site.client, round=asked.question.round)
        return SiteReply(ClientStats(), fault=Fault.PAUSED)
    return rest(replace(asked, rules=rules, audit=rules.audit))


def refuse_stale(asked: Asked, rest: Next) -> SiteReply:
    """The round is not before the newest one, or the answer to it is still here."""
    allowed = asked.rules is not None and asked.rules.earlier_rounds
    if not allowed and asked.question.kind not in TIMELESS and not asked.is_finished():
        newest = asked.site.buffer.outbox.newest(asked.question.experiment)
        require_current(asked.question, newest)
    return rest(asked)


def spend_rounds(asked: Asked, rest: Next) -> SiteReply:
    """The site's budget allows the question and is smaller now, unless it was counted before."""
    question, outbox = asked.question, asked.site.buffer.outbox
    if asked.rules is not None and not asked.is_finished():
        require_left(asked)
        outbox.note_asked(
            question.experiment, _counted_as(question), question.round, question.adapter
        )
    return rest(asked)


def require_left(asked: Asked) -> None:
    """The site's rules, if it has any, leave something for the question; nothing is counted."""
    rules, question, outbox = asked.rules, asked.question, asked.site.buffer.outbox
    if rules is not None:
        require_near(rules, question, outbox.newest(question.experiment))
        counted = question.experiment, _counted_as(question)
        tried, done = outbox.tried(*counted, question.round), outbox.count_asked(*counted)
        require_budget(rules, question, asked.config, tried=tried, done=done)


def _counted_as(question: Question) -> str:
    return VALIDATION if question.kind == "validate" else WORK
