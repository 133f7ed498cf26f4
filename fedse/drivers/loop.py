"""The round loop every driver shares: go through the stages, commit, announce, repeat.

A driver supplies one thing: a way to ask members and receive their answers. So the local driver
and a Flower deployment differ in transport only.
"""

import time
from functools import reduce

from fedse.adapters.base import initial_adapter
from fedse.adapters.peft_folder import export_whole
from fedse.aggregate.factors import request_bytes
from fedse.aggregate.quarantine import WINDOW, StrikeHistory, strike_history
from fedse.committed import RoundResult
from fedse.drivers.begin import Sleep, begin, put_off
from fedse.drivers.collecting import exclusion_of, forget_inbox
from fedse.drivers.consent import is_amended
from fedse.drivers.regions import tell_regions
from fedse.drivers.round import OpenRound
from fedse.drivers.stages import record_evaluation, stages_of, too_few
from fedse.ledger.record import note_end, note_round, run_ledger
from fedse.ledger.writing import Ledger
from fedse.protocol import Ask
from fedse.results.alarms import course_alarms, round_alarms
from fedse.results.role_alarms import LOOKED_BACK
from fedse.results.role_course import validations_of
from fedse.store.retention import keep_newest_rounds
from fedse.store.run import Run
from fedse.types import Adapter, Clock


def federate(
    run: Run, ask: Ask, *, clock: Clock, timer: Clock = time.monotonic, sleep: Sleep = time.sleep
) -> Adapter:
    """All rounds are committed, or the run was to stop or `is_amended`; the newest global adapter.

    Goes on where it was stopped. A run that is amended has to be opened again.
    """
    rounds, last, stages = run.config.run.rounds, run.config.run.last, stages_of(run.config)
    run.begin(initial_adapter(run.spec, seed=run.config.run.seed))
    ledger = run_ledger(run, clock=clock)
    clients = len(run.config.clients)
    run.emit("run.started", rounds=rounds, committed=run.committed or 0, clients=clients)
    for index in run.kept_rounds():
        if index >= run.config.model.since:
            _export(run, index)
    past = strike_history(run.recent(WINDOW))
    while (done := run.committed or 0) < last and not is_amended(run):
        waiting = OpenRound(run, ask, done + 1, _current(run, done), with_pardons(past, run))
        opened = begin(waiting, clock=clock, sleep=sleep)
        if opened is None:
            run.emit("run.stopped", round=done, adapter=waiting.current.digest)
            return waiting.current
        started = timer()
        run.emit("round.started", round=opened.index, rounds=rounds)
        closed = reduce(lambda r, stage: stage(r), stages, opened)
        if reason := too_few(closed):
            put_off(closed, reason, now=clock())
            continue
        result = closed.result()
        commit_round(run, ledger, result.model_copy(update={"seconds": timer() - started}))
        past = past.after(result)
    final = OpenRound(run, ask, done + 1, run.adapter(done), with_pardons(past, run))
    if not is_amended(run):
        measure_last(final)
        tell_regions(final)
        note_end(ledger, done, final.current.digest)
        run.emit("run.finished", rounds=rounds, adapter=final.current.digest)
    return final.current


def _current(run: Run, done: int) -> Adapter:
    """The adapter that the round after `done` begins with: a new one for a new base model."""
    if done + 1 != run.config.model.since or not done:
        return run.adapter(done)
    begun = initial_adapter(run.spec, seed=run.config.run.seed)
    run.store(begun)
    return begun


def measure_last(r: OpenRound) -> None:
    """The last adapter has played held-out games at every site that could be asked."""
    run, config, rounds = r.run, r.run.config, r.index - 1
    out = r.quarantined
    asked = [name for name in config.members if name not in out]
    # A site that reported its result before an interruption answers again from its outbox.
    if not config.eval.episodes or len(run.evals(rounds)) >= len(asked):
        return
    answered: set[str] = set()
    question = r.question("evaluate", r.current, evaluate=True)
    for delivery in r.ask(question, request_bytes(r.current, config), of=asked):
        known = delivery.client in asked and not delivery.exclusion
        if known and not exclusion_of(config, delivery, answered, lambda client, adapter: ""):
            record_evaluation(run, rounds, delivery.client, delivery.stats)
            answered.add(delivery.client)


def commit_round(run: Run, ledger: Ledger, result: RoundResult) -> None:
    """The round counts, its line is in the ledger, then it is announced and exported."""
    run.emit("commit.started", round=result.index, adapter=result.after)
    run.commit(result)
    note_round(ledger, result)
    run.emit("round.committed", **_summary(result))
    _raise_alarms(run, result)
    _export(run, result.index)
    forget_inbox(run)
    keep_newest_rounds(run, run.config.storage.rounds)


def with_pardons(past: StrikeHistory, run: Run) -> StrikeHistory:
    """Read once per round: a pardon counts from the round on that begins after it."""
    return past._replace(pardons={one.client: one.after for one in run.pardons()})


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
    alarms = round_alarms(result, run.config)
    if run.config.roles.names:
        results = [*run.recent(LOOKED_BACK)]
        alarms += course_alarms(results, run.config, validations_of(run, results))
    for name, text, then in alarms:
        run.emit("alarm.raised", round=result.index, alarm=name, text=text, next=then)


def _export(run: Run, index: int) -> None:
    folder = run.adapter_folder(index)
    # A resumed run comes here for every earlier round; the adapter is read only if needed.
    if index and not folder.exists():
        adapter = run.adapter(index)
        export_whole(adapter, folder, same=run.blob(adapter.digest))
