"""Whether a ledger is sound and agrees with its owner's database.

A line that a crash prevented is reported as missing until the owner's next start writes it; so is
one that was cut off the end of the file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedse.committed import RoundResult
from fedse.ledger.audits import audit_duty, audit_fault
from fedse.ledger.chain import FILE, Entry, Finding, examine
from fedse.ledger.databases import (
    committed_rounds,
    erasure_marks,
    granted_pardons,
    outbox_answers,
    outbox_audits,
)
from fedse.ledger.decisions import decision_fault
from fedse.ledger.entries import (
    AnswerEntry,
    PardonEntry,
    answer_entries,
    pardon_entries,
    round_entries,
    round_entry,
    shape_fault,
)
from fedse.ledger.keys import PUBLIC, read_public
from fedse.ledger.writing import read_ledger


class Verdict(NamedTuple):
    """A ledger and the result of verifying it."""

    path: Path
    entries: tuple[Entry, ...]
    """The lines before the first bad one."""
    compared: str
    """The database that its end was compared with; empty = there is none beside it."""
    finding: Finding | None

    @property
    def began(self) -> Mapping[str, Any]:
        """What its first line says."""
        return self.entries[0].facts if self.entries else {}


def ledgers_in(folder: Path) -> list[Path]:
    """The ledgers of a run or of a site's home: its own first, then those of clients inside."""
    inside = ("*", "clients/*", "flower/sites/*")
    clients = [path for where in inside for path in sorted(folder.glob(f"{where}/{FILE}"))]
    return [path for path in (folder / FILE, *clients) if path.is_file()]


def verify_ledger(path: Path, *, trusted: str | None = None) -> Verdict:
    """The first fault of a ledger, including its key and its end; None if there is none."""
    rounds, outbox = path.with_name("state.db"), path.with_name("buffer.db")
    # Read before the lines, so that a round committed meanwhile is not reported as missing.
    committed, finished = committed_rounds(rounds), list(outbox_answers(outbox))
    pardons, erased = granted_pardons(rounds), erasure_marks(outbox)
    audited = outbox_audits(outbox)
    entries, torn, broken = examine(read_ledger(path))
    server = bool(entries) and entries[0].facts["role"] == "server"
    database = rounds if server else outbox
    finding = _key_fault(path, entries, trusted) or broken or _tail_fault(entries, torn)
    finding = finding or shape_fault(entries)
    if finding is None and server:
        after = committed_rounds(rounds) if rounds.is_file() else None
        finding = server_fault(entries, after) or _missing(
            entries, [f"round {number}" for number in _unrecorded_rounds(entries, committed)]
        )
        known = granted_pardons(rounds) if rounds.is_file() else None
        finding = finding or _pardon_fault(entries, pardons, known) or decision_fault(entries)
    elif finding is None:
        finding = _client_fault(entries, finished) or _erasure_fault(entries, erased)
        finding = finding or audit_fault(entries, audited, audit_duty(path.parent))
    sound = entries[: finding.line - 1] if finding else entries
    return Verdict(path, sound, database.name if database.is_file() else "", finding)


def server_fault(
    entries: Sequence[Entry], committed: Mapping[int, RoundResult] | None, *, first: int = 1
) -> Finding | None:
    """Each round from the first on has one line, in order, starts where the last one ended, and is
    as committed."""
    ended, anew = None, _lines_anew(entries)
    for expected, (line, entry) in enumerate(round_entries(entries), start=first):
        if entry.round != expected:
            return Finding(line, f"records round {entry.round}, expected round {expected}")
        if ended is not None and entry.before != ended and line not in anew:
            return Finding(
                line, f"starts round {expected} with an adapter the round before did not make"
            )
        ended = entry.after
        if committed is None:
            continue
        if expected not in committed:
            return Finding(line, f"records round {expected}, which the run did not commit")
        truth = round_entry(committed[expected])
        differing = [k for k, value in truth if k != "recovered" and getattr(entry, k) != value]
        if differing:
            reason = f"differs from round {expected} as committed: {', '.join(differing)}"
            return Finding(line, reason)
    return None


def _lines_anew(entries: Sequence[Entry]) -> set[int]:
    """Of the rounds that are the first with another base model than the run had before."""
    found, before, now = set[int](), None, None
    for entry in entries:
        if entry.kind == "begun":
            before, now = now or entry.facts["spec"], entry.facts["spec"]
        elif entry.kind == "round" and now != before:
            found.add(entry.line)
            before = now
    return found


def _pardon_fault(
    entries: Sequence[Entry],
    granted: Mapping[tuple[str, int], PardonEntry],
    known: Mapping[tuple[str, int], PardonEntry] | None,
) -> Finding | None:
    """Each pardon of `granted` has a line, and each line is about one of `known`."""
    recorded = pardon_entries(entries)
    for line, entry in recorded:
        if known is not None and (
            entry.key not in known or known[entry.key].reason != entry.reason
        ):
            return Finding(line, f"records a pardon of {entry.client} that the run did not grant")
    lacking = sorted(set(granted) - {entry.key for _, entry in recorded})
    return _missing(entries, [f"the pardon of {client} after round {r}" for client, r in lacking])


def _unrecorded_rounds(entries: Sequence[Entry], committed: Mapping[int, RoundResult]) -> list[int]:
    return sorted(set(committed) - {entry.round for _, entry in round_entries(entries)})


def _client_fault(entries: Sequence[Entry], finished: Sequence[AnswerEntry]) -> Finding | None:
    """Each answer in the outbox has a line, and the last line about it agrees."""
    recorded = {entry.key: (line, entry) for line, entry in answer_entries(entries)}
    for answer in finished:
        line, entry = recorded.get(answer.key, (0, answer))
        if (entry.sent, entry.episodes) != (answer.sent, answer.episodes):
            return Finding(line, f"differs from the answer of round {answer.round} in the outbox")
    lacking = [answer.round for answer in finished if answer.key not in recorded]
    return _missing(entries, [f"the answer of round {number}" for number in lacking])


def _erasure_fault(entries: Sequence[Entry], erased: set[str]) -> Finding | None:
    lacking = erased - {line.facts["mark"] for line in entries if line.kind == "forgotten"}
    return _missing(entries, [f"an erasure, mark {mark[:12]}" for mark in sorted(lacking)])


def _missing(entries: Sequence[Entry], lacking: Sequence[str]) -> Finding | None:
    if not lacking:
        return None
    why = "the end was cut off, or a crash prevented it and the next start writes it"
    return Finding(len(entries) + 1, f"is missing, {lacking[0]}: {why}")


def _key_fault(path: Path, entries: Sequence[Entry], trusted: str | None) -> Finding | None:
    if not entries:
        return None
    beside, key = path.with_name(PUBLIC), entries[0].facts["key"]
    own = read_public(beside) if beside.is_file() else None
    for name, expected in (("the trusted key", trusted), (f"{PUBLIC} beside it", own)):
        if expected is not None and key != expected:
            got = f"names key {key[:12]}" if key else "states that the ledger is unsigned"
            return Finding(1, f"{got}, {name} is {expected[:12]}: it was rewritten")
    return None


def _tail_fault(entries: Sequence[Entry], torn: bytes) -> Finding | None:
    if torn:
        why = "its end was changed, or a crash cut it short and the next start repairs it"
        return Finding(len(entries) + 1, f"is not whole: {why}")
    return None if entries else Finding(1, "is missing: the ledger is empty")
