"""The stage that lets votes of earlier rounds count in this one, with a smaller weight.

A vote says how a site would change the adapter that it was given. So one that comes late is moved:
its change is the same, from the adapter that this round begins with. A site has one vote in a
round. Which late votes counted is read from the committed rounds, so a round that is done again
after a crash has the same ones.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fedse.aggregate.factors import layout_of, travelling_spec, with_resting_factor
from fedse.aggregate.merge import late_weight
from fedse.aggregate.validate import parse_adapter
from fedse.committed import Exclusion, LateVote, RoundResult
from fedse.drivers.collecting import inbox, misfit_of
from fedse.drivers.round import OpenRound
from fedse.errors import AdapterRejected
from fedse.method.site import Answer
from fedse.store.files import mapped
from fedse.store.late_replies import LateReply, late_replies
from fedse.types import Adapter, AdapterSpec, ClientStats


def join_late(r: OpenRound) -> OpenRound:
    """The newest late vote of each site that has none in this round is among the answers."""
    past = [*r.run.recent(r.run.config.aggregate.late + 1)]
    newest = {one.client: one for one in late_replies(r.run) if _may_join(r, one, past)}
    answers, faults = {**r.answers}, [*r.faults]
    for client, reply in newest.items():
        try:
            answers[client] = _joined(r, reply)
        except AdapterRejected as rejection:
            reason = f"its vote of round {reply.round}: {rejection}"
            faults.append(Exclusion(client=client, kind="rejected", reason=reason))
    return replace(r, answers=dict(sorted(answers.items())), faults=tuple(faults))


def _may_join(r: OpenRound, reply: LateReply, past: Sequence[RoundResult]) -> bool:
    """The vote is not too old, and its site had no other say since, and is not excluded now."""
    config, here = r.run.config, r.answers.get(reply.client)
    out = {one.client for one in r.faults if one.kind != "failed"}
    return (
        1 <= r.index - reply.round <= config.aggregate.late
        and reply.round >= config.model.since
        and reply.client in {*r.expected} - out
        and not (here and here.read)
        and not any(_counted(one, reply) for one in past if one.index >= reply.round)
        # Not a vote but the late reply to a question of another kind.
        and reply.file.stat().st_size == _layout(r, reply).nbytes
    )


def _layout(r: OpenRound, reply: LateReply) -> AdapterSpec:
    """That of the blocks which the vote names."""
    return layout_of(reply.file.read_bytes(), travelling_spec(r.run.spec, r.run.config))


def _counted(result: RoundResult, reply: LateReply) -> bool:
    """In that round the site had a vote, or was excluded by more than a failure of its line."""
    out = {one.client for one in result.excluded if one.kind != "failed"}
    return reply.client in {*result.voters, *out}


def _joined(r: OpenRound, reply: LateReply) -> Answer:
    """The vote as one on this round's adapter; one that was never fit to count is rejected."""
    run, begun, sent = r.run, r.run.adapter(reply.round - 1), reply.file.read_bytes()
    travelling = travelling_spec(run.spec, run.config)
    if reason := misfit_of(replace(r, current=begun), travelling, sent):
        raise AdapterRejected(reason)
    layout = layout_of(sent, travelling)
    whole = with_resting_factor(sent, layout, begun)
    made = parse_adapter(whole, run.spec, run.config.aggregate)
    moved = Adapter(run.spec, r.current.vector + (made.vector - begun.vector))
    kept = inbox(run) / f"{r.index}-{reply.client}"
    kept.write_bytes(moved.to_bytes())
    late = LateVote(
        client=reply.client,
        round=reply.round,
        adapter=hashlib.sha256(sent).hexdigest(),
        weight=late_weight(r.index - reply.round),
    )
    run.emit(
        "answer.joined",
        round=r.index,
        client=late.client,
        made=late.round,
        weight=round(late.weight, 3),
    )
    stats = r.answers[reply.client].stats if reply.client in r.answers else ClientStats()
    return Answer(reply.client, stats, partial(mapped, kept), late, layout.blocks)
