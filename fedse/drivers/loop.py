"""The round loop every driver shares: ask the members, merge, commit, announce, repeat.

A driver supplies one thing: a way to ask all members and receive their answers. So the local
driver and a Flower deployment differ in transport only.
"""

from functools import partial
from pathlib import Path

from fedse.adapters.base import initial_adapter
from fedse.adapters.peft_folder import export_whole
from fedse.aggregate.drift import drift_of
from fedse.aggregate.factors import reply_spec, travelling_spec, with_resting_factor
from fedse.aggregate.quarantine import StrikeHistory, quarantined, strike_history
from fedse.aggregate.validate import cap_lessons, load_checked, shrink_to_bound
from fedse.committed import Drift, Exclusion, RoundResult
from fedse.drivers.gating import PlayingSites, gate
from fedse.drivers.replies import ExpectedReply, exclusion_of
from fedse.errors import RunError
from fedse.ledger.chain import Ledger
from fedse.ledger.record import note_end, note_round, run_ledger
from fedse.method.rounds import server_round
from fedse.method.site import Answer, Merged
from fedse.protocol import Ask, Delivery, Request
from fedse.store.run import Run
from fedse.types import Adapter, ClientStats, Clock

SIDE_BY_SIDE = 256 << 20
"""Total bytes of replies up to which all are held in memory at once, to measure their drift."""


def federate(run: Run, ask: Ask, *, clock: Clock) -> Adapter:
    """All rounds are committed; returns the final global adapter. Goes on where it was stopped."""
    rounds = run.config.run.rounds
    run.begin(initial_adapter(run.spec, seed=run.config.run.seed))
    ledger = run_ledger(run, clock=clock)
    done = run.committed or 0
    run.emit("run.started", rounds=rounds, committed=done, clients=len(run.config.clients))
    for index in range(1, done + 1):
        _export(run, index)
    past = strike_history(run.results())
    for index in range(done + 1, rounds + 1):
        past = past.after(_round(run, ask, index, clock, past, ledger))
    final = run.adapter(rounds)
    _final_eval(run, ask, rounds, final, past)
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
        if delivery.client not in out and not exclusion_of(run, delivery, answered, expected):
            _record_eval(run, rounds, delivery.client, delivery.stats)
            answered.add(delivery.client)


def _round(
    run: Run, ask: Ask, index: int, clock: Clock, past: StrikeHistory, ledger: Ledger
) -> RoundResult:
    started, current = clock(), run.adapter(index - 1)
    skip = {*_quarantined(run, past), *_still_to_join(run, index)}
    returned = reply_spec(run.spec, run.config, round=index)
    run.emit("round.started", round=index, rounds=run.config.run.rounds)
    answers, faults = _collect(run, ask, index, ExpectedReply(current, returned), past)
    run.emit("aggregate.started", round=index, answers=len(answers))
    merged, gated = _merge(run, index, current, answers), None
    if run.config.gate.episodes:
        without = partial(_merge_without, run, index, current, answers)
        panel = PlayingSites(run, ask, index, skip, out=len(_quarantined(run, past)))
        merged, gated = gate(panel, current, without)
    _record_evals(run, index - 1, merged, answers)
    excluded = (*merged.excluded, *faults)
    _require_enough(run, index, len(merged.voters) + len(merged.abstained), excluded)
    result = RoundResult(
        index=index,
        before=current.digest,
        after=run.store(merged.adapter),
        moments=tuple(run.store(moment) for moment in merged.moments),
        voters=merged.voters,
        abstained=merged.abstained,
        excluded=excluded,
        absent=_absent(run, index, answers, faults),
        stats={client: answers[client].stats for client in sorted(answers)},
        bytes_down=travelling_spec(run.spec, run.config).nbytes
        * (len(run.config.clients) - len(skip)),
        bytes_up=returned.nbytes * len(merged.voters),
        seconds=clock() - started,
        drift=_drift(run, current, merged, answers),
        gate=gated,
    )
    _commit(run, ledger, result)
    return result


def _commit(run: Run, ledger: Ledger, result: RoundResult) -> None:
    """The round counts, its line is in the ledger, then it is announced and exported."""
    run.emit("commit.started", round=result.index, adapter=result.after)
    run.commit(result)
    note_round(ledger, result)
    run.emit("round.committed", **_summary(result))
    _export(run, result.index)
    _forget_inbox(run)


def _collect(
    run: Run, ask: Ask, index: int, expected: ExpectedReply, past: StrikeHistory
) -> tuple[dict[str, Answer], list[Exclusion]]:
    """The replies that can be used, and the exclusions; members in quarantine are not asked."""
    current = expected.current
    out, stale = _quarantined(run, past), past.adapters - {current.digest}
    answers: dict[str, Answer] = {}
    faults = list(out.values())
    for fault in faults:
        _announce(run, index, Delivery(fault.client, ClientStats(), exclusion=fault))
    skip = {*out, *_still_to_join(run, index)}
    for delivery in ask(_request(run, index, current, train=True), current, skip=skip):
        if delivery.client in skip:
            continue
        exclusion = delivery.exclusion or exclusion_of(run, delivery, answers, expected, stale)
        _announce(run, index, delivery._replace(exclusion=exclusion))
        if exclusion:
            faults.append(exclusion)
        else:
            answers[delivery.client] = _hold(run, index, delivery, expected)
    return answers, faults


def _still_to_join(run: Run, index: int) -> set[str]:
    return {client.name for client in run.config.clients if client.joins > index}


def _quarantined(run: Run, past: StrikeHistory) -> dict[str, Exclusion]:
    members = (client.name for client in run.config.clients)
    return quarantined(past, members, limit=run.config.aggregate.strikes)


def _merge(run: Run, index: int, current: Adapter, answers: dict[str, Answer]) -> Merged:
    """The merged adapter, within the bounds that the next round checks."""
    capped = []
    for client, stats, read in answers.values():
        lessons = {"buffered": cap_lessons(stats.buffered, run.config, round=index)}
        capped.append(Answer(client, stats.model_copy(update=lessons), read))
    merged = server_round(current, capped, run.config, moments=run.moments(index - 1))
    adapter = shrink_to_bound(merged.adapter, max_norm=run.config.aggregate.max_norm)
    return merged._replace(adapter=adapter)


def _merge_without(
    run: Run, index: int, current: Adapter, answers: dict[str, Answer], out: frozenset[str]
) -> Merged:
    kept = {client: answer for client, answer in answers.items() if client not in out}
    return _merge(run, index, current, kept)


def _drift(run: Run, current: Adapter, merged: Merged, answers: dict[str, Answer]) -> Drift | None:
    if not merged.voters or len(merged.voters) * run.spec.nbytes > SIDE_BY_SIDE:
        return None
    read = {client: answers[client].read for client in merged.voters}
    votes = {client: load_checked(r, run.spec) for client, r in read.items() if r}
    return drift_of(current, merged.adapter, votes)


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


def _hold(run: Run, index: int, delivery: Delivery, expected: ExpectedReply) -> Answer:
    """The reply with its whole adapter on disk, so that a thousand of them fit in memory."""
    if delivery.adapter is None:
        return Answer(delivery.client, delivery.stats, None)
    kept = _inbox(run) / f"{index}-{delivery.client}"
    kept.write_bytes(with_resting_factor(delivery.adapter, expected.returned, expected.current))
    return Answer(delivery.client, delivery.stats, kept.read_bytes)


def _record_evals(run: Run, round: int, merged: Merged, answers: dict[str, Answer]) -> None:
    """The evaluations of the adapter after `round` are on record, but not from rejected replies."""
    for one in merged.excluded:
        run.emit("answer.excluded", round=round + 1, client=one.client, reason=one.text)
    for client in sorted({*answers} - {one.client for one in merged.excluded}):
        _record_eval(run, round, client, answers[client].stats)


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


def _announce(run: Run, index: int, delivery: Delivery) -> None:
    client, fault, sent = delivery.client, delivery.fault, len(delivery.adapter or b"")
    facts = delivery.stats.model_dump()
    run.emit("answer.received", round=index, client=client, fault=fault, bytes=sent, **facts)


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


def _require_enough(run: Run, index: int, valid: int, excluded: tuple[Exclusion, ...]) -> None:
    needed = run.config.aggregate.min_clients
    if valid < needed:
        first = f"; {excluded[0].client}: {excluded[0].text}" if excluded else ""
        raise RunError(
            f"round {index} has {valid} valid answers, aggregate.min_clients is {needed}{first}",
            hint=f"fix the cause, then: fedse resume {run.path}",
        )


def _absent(
    run: Run, index: int, answers: dict[str, Answer], faults: list[Exclusion]
) -> tuple[str, ...]:
    answered = {*answers, *(fault.client for fault in faults)}
    expected = {client.name for client in run.config.clients} - _still_to_join(run, index)
    return tuple(sorted(expected - answered))


def _export(run: Run, index: int) -> None:
    folder = run.adapter_folder(index)
    # A resumed run comes here for every earlier round; the adapter is read only if needed.
    if not folder.exists():
        export_whole(run.adapter(index), folder)


def _inbox(run: Run) -> Path:
    inbox = run.path / "inbox"
    inbox.mkdir(exist_ok=True)
    return inbox


def _forget_inbox(run: Run) -> None:
    for kept in _inbox(run).iterdir():
        kept.unlink()
