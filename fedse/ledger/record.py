"""When lines are written into a ledger.

A line is written after the commit it records and before the commit is announced. A line that a
crash prevented is written at the next start or with the next line, marked `recovered`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from fedse.committed import RoundResult
from fedse.config.file import dump_config
from fedse.errors import StoreError
from fedse.ledger.chain import FILE, Entry, examine_recent
from fedse.ledger.databases import answers_to, newest_requests, outbox_rounds
from fedse.ledger.entries import (
    AnswerEntry,
    ForgottenEntry,
    MovedEntry,
    OutboxKey,
    PardonEntry,
    RemovedEntry,
    ResentEntry,
    RoundEntry,
    answer_entries,
    round_entry,
)
from fedse.ledger.verifying import server_fault
from fedse.ledger.writing import Ledger, read_ledger
from fedse.store.erasure import Erasure
from fedse.store.files import from_backup
from fedse.store.old_episodes import OldCounts
from fedse.store.run import Run
from fedse.types import Clock, Record

RECOVERED = {"recovered": True}


def run_ledger(run: Run, *, clock: Clock) -> Ledger:
    """The server's ledger, with a line for every round the run has committed."""
    ledger = Ledger(run.path, role="server", name=run.path.name, clock=clock)
    last = ledger.last("round")
    recorded = 0 if last is None else RoundEntry.model_validate(last.facts).round
    committed = {result.index: result for result in run.results(since=max(1, recorded))}
    finding = server_fault([last], committed, first=recorded) if last else None
    if finding:
        raise StoreError(
            f"ledger {ledger.path}, line {finding.line} {finding.reason}",
            hint="was the run restored from a backup? to start a new ledger, move this away",
        )
    begun, facts = ledger.last("begun"), _begun(run)
    if begun is None or begun.facts != facts:
        ledger.append("begun", facts)
    for number in sorted(set(committed) - {recorded}):
        recovered = round_entry(committed[number]).model_copy(update=RECOVERED)
        _append(ledger, "round", recovered)
    note_pardons(ledger, run, recovered=True)
    return ledger


def note_pardons(ledger: Ledger, run: Run, *, recovered: bool = False) -> None:
    """Every pardon has exactly one line."""
    for one in run.pardons():
        entry = PardonEntry(**one._asdict(), recovered=recovered)
        # Two processes may write it: the one that grants it and one that starts meanwhile.
        naming = f'"client":"{one.client}"'
        ledger.append_once("pardoned", entry, naming=naming, by=("client", "after"))


def note_round(ledger: Ledger, result: RoundResult) -> None:
    """The committed round has its line."""
    _append(ledger, "round", round_entry(result))


def note_end(ledger: Ledger, rounds: int, adapter: str) -> None:
    """The end of the run has its line; reopening a finished run writes no second one."""
    end, round = ledger.last("finished"), ledger.last("round")
    if end is None or (round is not None and round.index > end.index):
        ledger.append("finished", {"rounds": rounds, "adapter": adapter})


def note_answer(home: Path, client: str, answer: AnswerEntry, *, fresh: bool, clock: Clock) -> None:
    """The answer and every earlier one have their lines; an answer sent again is `resent`."""
    ledger = Ledger(home, role="client", name=client, clock=clock)
    for earlier in _unrecorded_answers(ledger, home / "buffer.db", answer.key):
        _append(ledger, "answered", earlier.model_copy(update=RECOVERED))
    if fresh:
        _append(ledger, "answered", answer)
    elif (told := _told(ledger, answer.key)) is None or told.sent != answer.sent:
        _append(ledger, "answered", answer.model_copy(update=RECOVERED))
    else:
        again = answer.model_dump(include=set(ResentEntry.model_fields))
        _append(ledger, "resent", ResentEntry(**again))


def _unrecorded_answers(ledger: Ledger, buffer: Path, now: OutboxKey) -> list[AnswerEntry]:
    """The finished answers without a line, the oldest first.

    They are the newest ones: whoever writes a line first writes those that a crash prevented.
    """
    others = (asked for asked in newest_requests(buffer) if asked.key != now)
    lacking = [*takewhile(lambda asked: _told(ledger, asked.key) is None, others)]
    return [answer for asked in reversed(lacking) for answer in answers_to(buffer, asked)]


def _told(ledger: Ledger, key: OutboxKey) -> AnswerEntry | None:
    """What the newest line about a request says."""
    line = ledger.last("answered", naming=key[-1], where=partial(_is_about, key))
    return AnswerEntry.model_validate(line.facts) if line else None


def _is_about(key: OutboxKey, line: Entry) -> bool:
    return AnswerEntry.model_validate(line.facts).key == key


def note_erasures(home: Path, client: str, erasures: Sequence[Erasure], *, clock: Clock) -> None:
    """Every erasure has exactly one line."""
    if not erasures:
        return
    ledger = Ledger(home, role="client", name=client, clock=clock)
    for erasure in erasures:
        entry = ForgottenEntry(**erasure.model_dump(include=set(ForgottenEntry.model_fields)))
        ledger.append_once("forgotten", entry, naming=erasure.mark, by=("mark",))


def note_removal(
    home: Path, client: str, last: Mapping[str, int], count: OldCounts, *, days: int, clock: Clock
) -> None:
    """There is one line about the removal of the rounds up to these, also if it is repeated."""
    entry = RemovedEntry(days=days, rounds=dict(last), **count._asdict())
    ledger = Ledger(home, role="client", name=client, clock=clock)
    ledger.append_once("removed", entry, naming='"kind":"removed"', by=("rounds",))


def note_moved(
    home: Path,
    client: str,
    kind: Literal["brought", "left"],
    *,
    other: str,
    lessons: int,
    charges: int,
    clock: Clock,
) -> None:
    """There is one line about the experience that the home has got, or no longer has."""
    entry = MovedEntry(other=other, lessons=lessons, charges=charges)
    Ledger(home, role="client", name=client, clock=clock).append_once(kind, entry, naming=other)


def require_answers(home: Path) -> None:
    """The newest answers that the ledger in `home` records are in the buffer beside it."""
    if not (home / FILE).is_file():
        return
    given = {e.key[:2] for _, e in answer_entries(examine_recent(read_ledger(home / FILE)).entries)}
    if lacking := sorted(given - outbox_rounds(home / "buffer.db")):
        experiment, number = lacking[-1]
        raise StoreError(
            f"{home / 'buffer.db'} lacks the answer to round {number} of {experiment!r}, which the "
            "ledger records: this is not the original buffer",
            hint=f"{from_backup(home / 'buffer.db')}; to start without it, move {FILE} away too",
        )


def _begun(run: Run) -> dict[str, Any]:
    resolved = run.path / "config.resolved.toml"
    text = resolved.read_text() if resolved.is_file() else dump_config(run.config)
    return {
        "experiment": run.config.run.name,
        "rounds": run.config.run.rounds,
        "config": hashlib.sha256(text.encode()).hexdigest(),
        "agreed": run.config.agreed_digest(),
        "spec": run.spec.identity,
        "adapter": run.digest(0),
        "members": sorted(client.name for client in run.config.clients),
    }


def _append(ledger: Ledger, kind: str, content: Record) -> None:
    ledger.append(kind, content.model_dump(mode="json"))
