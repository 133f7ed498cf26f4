"""The round loop every driver shares: ask the members, merge, commit, announce, repeat.

A driver supplies one thing: a way to ask all members and receive their answers. So the local
driver and a Flower deployment differ in transport only.
"""

import time
from collections.abc import Mapping, Sequence

from fedse.adapters.base import initial_adapter
from fedse.adapters.peft_folder import export_whole
from fedse.aggregate.quarantine import StrikeHistory, quarantined, strike_history
from fedse.committed import Exclusion, RoundResult
from fedse.drivers.gathering import (
    AskedRound,
    Gather,
    Gathered,
    announce,
    forget_inbox,
    gather_adapters,
    gather_sum,
)
from fedse.drivers.gating import PlayingSites, gate
from fedse.drivers.replies import ExpectedReply, exclusion_of
from fedse.errors import RunError
from fedse.ledger.chain import Ledger
from fedse.ledger.record import note_end, note_round, run_ledger
from fedse.method.site import Merged
from fedse.protocol import Ask, Delivery, Request
from fedse.results.alarms import round_alarms
from fedse.store.retention import keep_newest_rounds
from fedse.store.run import Run
from fedse.types import Adapter, ClientStats, Clock


def federate(run: Run, ask: Ask, *, clock: Clock, timer: Clock = time.monotonic) -> Adapter:
    """All rounds are committed; returns the final global adapter. Goes on where it was stopped."""
    gather = gather_sum if run.config.aggregate.secure else gather_adapters
    return federate_by(gather, run, ask, clock=clock, timer=timer)


def federate_by(
    gather: Gather, run: Run, ask: Ask, *, clock: Clock, timer: Clock = time.monotonic
) -> Adapter:
    """As `federate`, with replies that are gathered in another way."""
    rounds = run.config.run.rounds
    run.begin(initial_adapter(run.spec, seed=run.config.run.seed))
    ledger = run_ledger(run, clock=clock)
    done = run.committed or 0
    run.emit("run.started", rounds=rounds, committed=done, clients=len(run.config.clients))
    for index in run.kept_rounds():
        _export(run, index)
    past = strike_history(run.results())
    for index in range(done + 1, rounds + 1):
        past = _with_pardons(past, run)
        started, asked = timer(), _asked_round(run, index, past)
        gathered = _gather(run, ask, asked, gather, past)
        result = _decide(run, ask, asked, gathered, past)
        _commit(run, ledger, result.model_copy(update={"seconds": timer() - started}))
        past = past.after(result)
    final = run.adapter(rounds)
    _final_eval(run, ask, rounds, final, _with_pardons(past, run))
    note_end(ledger, rounds, final.digest)
    run.emit("run.finished", rounds=rounds, adapter=final.digest)
    return final


def _final_eval(run: Run, ask: Ask, rounds: int, final: Adapter, past: StrikeHistory) -> None:
    out = _quarantined(run, past)
    # A client that reported its result before an interruption answers again from its outbox.
    if not run.config.eval.episodes or len(run.evals(rounds)) >= len(run.config.clients) - len(out):
        return
    answered: set[str] = set()
    expected = ExpectedReply(final, run.spec)
    for delivery in ask(_request(run, rounds + 1, final, train=False), final, skip=out):
        if delivery.client not in out and not exclusion_of(
            run.config, delivery, answered, expected
        ):
            _record_eval(run, rounds, delivery.client, delivery.stats)
            answered.add(delivery.client)


def _asked_round(run: Run, index: int, past: StrikeHistory) -> AskedRound:
    current = run.adapter(index - 1)
    return AskedRound(
        round=index,
        current=current,
        request=_request(run, index, current, train=True),
        skip={*_quarantined(run, past), *_still_to_join(run, index)},
        stale=past.adapters - {current.digest},
    )


def _gather(run: Run, ask: Ask, asked: AskedRound, gather: Gather, past: StrikeHistory) -> Gathered:
    """The replies of a round; members in quarantine are not asked and have their reason."""
    run.emit("round.started", round=asked.round, rounds=run.config.run.rounds)
    out = list(_quarantined(run, past).values())
    for fault in out:
        announce(run, asked.round, Delivery(fault.client, ClientStats(), exclusion=fault))
    gathered = gather(run, ask, asked)
    run.emit("aggregate.started", round=asked.round, answers=len(gathered.stats))
    return gathered._replace(faults=[*out, *gathered.faults])


def _decide(
    run: Run, ask: Ask, asked: AskedRound, gathered: Gathered, past: StrikeHistory
) -> RoundResult:
    """What the round comes to; its adapter is stored."""
    index, current = asked.round, asked.current
    if run.config.gate.episodes:
        panel = PlayingSites(run, ask, index, asked.skip, out=len(_quarantined(run, past)))
        merged, gated = gate(panel, current, gathered.merge, gathered.stances)
    else:
        merged, gated = gathered.merge(frozenset()), None
    _record_evals(run, index - 1, merged, gathered.stats)
    excluded = (*merged.excluded, *gathered.faults)
    _require_enough(run, index, len(merged.voters) + len(merged.abstained), excluded)
    return RoundResult(
        index=index,
        before=current.digest,
        after=run.store(merged.adapter),
        moments=tuple(run.store(moment) for moment in merged.moments),
        voters=merged.voters,
        abstained=merged.abstained,
        excluded=excluded,
        absent=_absent(run, index, {*gathered.stats, *merged.voters}, gathered.faults),
        stats=dict(gathered.stats),
        bytes_down=gathered.bytes_down,
        bytes_up=gathered.bytes_up(merged),
        seconds=0.0,
        drift=gathered.drift(merged),
        gate=gated,
    )


def _commit(run: Run, ledger: Ledger, result: RoundResult) -> None:
    """The round counts, its line is in the ledger, then it is announced and exported."""
    run.emit("commit.started", round=result.index, adapter=result.after)
    run.commit(result)
    note_round(ledger, result)
    run.emit("round.committed", **_summary(result))
    _raise_alarms(run, result)
    _export(run, result.index)
    forget_inbox(run)
    keep_newest_rounds(run, run.config.storage.rounds)


def _with_pardons(past: StrikeHistory, run: Run) -> StrikeHistory:
    """Read once per round: a pardon counts from the round on that begins after it."""
    return past._replace(pardons={one.client: one.after for one in run.pardons()})


def _still_to_join(run: Run, index: int) -> set[str]:
    return {client.name for client in run.config.clients if client.joins > index}


def _quarantined(run: Run, past: StrikeHistory) -> dict[str, Exclusion]:
    members = (client.name for client in run.config.clients)
    return quarantined(past, members, limit=run.config.aggregate.strikes)


def _request(run: Run, index: int, adapter: Adapter, *, train: bool) -> Request:
    config = run.config
    due = index == 1 or not train or (index - 1) % config.eval.every == 0
    return Request(
        experiment=config.run.name,
        round=index,
        agreed=config.agreed_digest(),
        spec=run.spec.identity,
        adapter=adapter.digest,
        train=train,
        evaluate=bool(config.eval.episodes) and due,
    )


def _record_evals(run: Run, round: int, merged: Merged, stats: Mapping[str, ClientStats]) -> None:
    """The evaluations of the adapter after `round` are on record, but not from rejected replies."""
    for one in merged.excluded:
        run.emit("answer.excluded", round=round + 1, client=one.client, reason=one.text)
    for client in sorted({*stats} - {one.client for one in merged.excluded}):
        _record_eval(run, round, client, stats[client])


def _record_eval(run: Run, round: int, client: str, stats: ClientStats) -> None:
    if not stats.eval_played:
        return
    run.record_eval(round, client, stats)
    run.emit(
        "eval.recorded",
        round=round,
        client=client,
        played=stats.eval_played,
        won=stats.eval_succeeded,
    )


def _summary(result: RoundResult) -> dict[str, int | float | str]:
    return {
        "round": result.index,
        "adapter": result.after,
        "voters": len(result.voters),
        "abstained": len(result.abstained),
        "excluded": len(result.excluded),
        "absent": len(result.absent),
        "seconds": round(result.seconds, 3),
    }


def _raise_alarms(run: Run, result: RoundResult) -> None:
    for name, text, then in round_alarms(result, run.config):
        run.emit("alarm.raised", round=result.index, alarm=name, text=text, next=then)


def _require_enough(run: Run, index: int, valid: int, excluded: tuple[Exclusion, ...]) -> None:
    needed = run.config.aggregate.min_clients
    if valid < needed:
        first = f"; {excluded[0].client}: {excluded[0].text}" if excluded else ""
        raise RunError(
            f"round {index} has {valid} valid answers, aggregate.min_clients is {needed}{first}",
            hint=f"fix the cause, then: fedse resume {run.path}",
        )


def _absent(
    run: Run, index: int, answered: set[str], faults: Sequence[Exclusion]
) -> tuple[str, ...]:
    expected = {client.name for client in run.config.clients} - _still_to_join(run, index)
    return tuple(sorted(expected - answered - {fault.client for fault in faults}))


def _export(run: Run, index: int) -> None:
    folder = run.adapter_folder(index)
    # A resumed run comes here for every earlier round; the adapter is read only if needed.
    if index and not folder.exists():
        adapter = run.adapter(index)
        export_whole(adapter, folder, same=run.blob(adapter.digest))
