"""Amendments before a round: every site is shown them, and none is asked to work under one that it
has not accepted.

A site that has not accepted what holds now is left out by name, and asked again before the next
round. One that accepted and then refuses, such as one restored from a backup, is asked again too.
"""

from dataclasses import replace

from fedse.committed import Exclusion
from fedse.config.agreement import Agreement
from fedse.drivers.round import OpenRound
from fedse.ledger.agreements import note_agreed
from fedse.protocol import YES
from fedse.store.agreements import (
    accepted_by,
    agreement_file,
    agreements_in,
    holding,
    note_acceptance,
)
from fedse.store.run import Run
from fedse.types import Clock


def with_consent(r: OpenRound, *, clock: Clock) -> OpenRound:
    """The round without the sites that have not accepted what holds in it."""
    known = agreements_in(r.run.path)
    now = holding(known, r.index)
    coming = [one for one in known if one.since > r.index]
    out = dict(r.out)
    for terms in [*([now] if now else []), *coming]:
        lacking = _lacking(r, terms)
        _ask(r, terms, lacking, clock=clock)
        never = sorted(lacking - accepted_by(r.run.path, terms.number))
        if terms is now:
            text = f"has not accepted agreement {terms.number}"
            out |= {c: Exclusion(client=c, kind="failed", reason=text) for c in never}
    return replace(r, out=out)


def is_amended(run: Run) -> bool:
    """Whether another agreement than the run was opened with holds in its next round."""
    now = holding(agreements_in(run.path), (run.committed or 0) + 1)
    return now is not None and now.agreed != run.config.agreed_digest()


def _lacking(r: OpenRound, terms: Agreement) -> frozenset[str]:
    """The sites that are not known to have accepted, or refused the last round."""
    last = next(r.run.recent(1), None)
    failed = {one.client for one in last.excluded if one.kind == "failed"} if last else set[str]()
    sure = accepted_by(r.run.path, terms.number) - failed
    return frozenset({*r.expected} & {*terms.members}) - sure


def _ask(r: OpenRound, terms: Agreement, lacking: frozenset[str], *, clock: Clock) -> None:
    """Those of them that have accepted are on record, each with a line in the ledger."""
    if not lacking:
        return
    body = agreement_file(r.run.path, terms.number).read_bytes()
    told = r.ask(r.question("agree", r.current), body, of=sorted(lacking))
    yes = frozenset(d.client for d in told if not d.exclusion and d.adapter == YES) & lacking
    # The line first: whoever has none is asked again after a crash, and a line is written once.
    note_agreed(r.run, terms, sorted(yes), clock=clock)
    note_acceptance(r.run.path, terms.number, yes)
