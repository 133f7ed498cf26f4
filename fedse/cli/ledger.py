"""`fedse ledger`: verify that a record of rounds is unchanged, and print it.

Reads the ledger and the database beside it, and changes neither; a fault is a security event. A
ledger may come from another party, so all of it is escaped before it reaches the terminal.
"""

import json as json_format
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from fedse.cli.display import Json
from fedse.cli.phrases import counted, megabytes
from fedse.committed import Exclusion
from fedse.errors import ConfigError, StoreError
from fedse.federation.security import note
from fedse.ledger.chain import Entry
from fedse.ledger.keys import read_public
from fedse.ledger.verifying import Verdict, ledgers_in, verify_ledger
from fedse.store.run_folder import find_run, runs_root

app = App(name="ledger", help_format="plaintext", help_epilogue="")

Place = Annotated[
    str, Parameter(help="Path or id of a run, `last`, a site's home, or a ledger file.")
]
Key = Annotated[
    Path | None, Parameter(help="Public key the ledger must be signed with (ledger.pub).")
]
SHORT = 12
UNSIGNED = "unsigned: anyone who can write this file can replace it"


@app.command
def verify(place: Place = "last", /, *, key: Key = None, json: Json = False) -> None:
    """Find the first line that was changed or is missing.

    Without --key the key named in the ledger is trusted, and the ledgers of clients in the same
    folder are verified too. Give the head to the other parties: it lets them detect a ledger
    that was shortened or rewritten.

    Example: fedse ledger verify last
    """
    paths = _ledgers(place) if key is None else [_own_ledger(place)]
    trusted = read_public(key) if key is not None else None
    verdicts = [verify_ledger(path, trusted=trusted) for path in paths]
    if json:
        print(json_format.dumps([_plain(verdict) for verdict in verdicts]))
    else:
        for verdict in verdicts:
            print(_describe(verdict))
    _require_sound(verdicts)


@app.command
def show(place: Place = "last", /, *, json: Json = False) -> None:
    """List the rounds in a ledger.

    Example: fedse ledger show last
    """
    verdicts = [verify_ledger(path) for path in _ledgers(place)]
    for number, verdict in enumerate(verdicts):
        if json:
            for entry in verdict.entries:
                print(json_format.dumps({"ledger": str(verdict.path), **entry.model_dump()}))
            continue
        print("\n" * bool(number) + _owner(verdict))
        rows = ROWS.get(verdict.began.get("role", ""), _client_rows)
        for line in _table(rows(verdict.entries)):
            print(line)
        for line in _exclusions(verdict.entries):
            print(line)
    _require_sound(verdicts)


def _ledgers(place: str) -> list[Path]:
    given = Path(place)
    if given.is_file():
        return [given]
    folder = given if given.is_dir() else find_run(place, runs_root(os.environ))
    paths = ledgers_in(folder)
    if not paths:
        raise StoreError(
            f"{folder} has no ledger: no round has been started there by a version that keeps one",
            hint="the next round started there writes one",
        )
    return paths


def _own_ledger(place: str) -> Path:
    """The only ledger that a key can belong to: that of the run or home itself."""
    first, *others = _ledgers(place)
    if others and any(path.parent.parent == first.parent.parent for path in others):
        raise ConfigError(
            f"--key belongs to one owner, but {place} has {counted(1 + len(others), 'ledger')}",
            hint=f"name one of them, such as {first}",
        )
    return first


def _require_sound(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        if verdict.finding:
            line, reason = verdict.finding
            found = f"line {line} {reason}"
            note(verdict.path.parent, "ledger.failed", clock=time.time, reason=found)
            raise StoreError(
                f"ledger {verdict.path}, line {line} {_safe(reason)}",
                hint="compare with the ledgers and heads of the other parties",
            )


def _describe(verdict: Verdict) -> str:
    if verdict.finding:
        return f"{_owner(verdict)}: line {verdict.finding.line} {_safe(verdict.finding.reason)}"
    key = verdict.began["key"]
    end = f"nothing in {verdict.compared} is missing here"
    if not verdict.compared:
        end = "the end cannot be verified here: compare the head with another party's"
    return "\n".join(
        (
            f"{_owner(verdict)}: {', '.join(_counts(verdict.entries))}",
            f"  key   {key if key else UNSIGNED}",
            f"  end   {end}",
            f"  head  {verdict.entries[-1].hash}",
        )
    )


def _owner(verdict: Verdict) -> str:
    began = verdict.began
    return _safe(f"{began['role']} {began['name']}") if began else str(verdict.path)


def _counts(entries: Sequence[Entry]) -> Iterator[str]:
    kinds = [entry.kind for entry in entries]
    yield counted(len(entries), "line")
    for kind, noun in NOUNS.items():
        if kind in kinds:
            yield counted(kinds.count(kind), noun)
    recovered = sum(1 for entry in entries if entry.facts.get("recovered"))
    if recovered:
        yield f"{recovered} written after a restart"


def _plain(verdict: Verdict) -> dict[str, Any]:
    kinds = [entry.kind for entry in verdict.entries]
    finding = verdict.finding
    return {
        "path": str(verdict.path),
        "role": verdict.began.get("role"),
        "name": verdict.began.get("name"),
        "key": verdict.began.get("key"),
        "signed": verdict.began.get("key") is not None,
        "sound": finding is None,
        "finding": {"line": finding.line, "reason": finding.reason} if finding else None,
        "compared": verdict.compared or None,
        "lines": len(kinds),
        "rounds": kinds.count("round"),
        "answers": kinds.count("answered"),
        "head": verdict.entries[-1].hash if verdict.entries else None,
    }


Row = tuple[str, ...]


def _server_rows(entries: Sequence[Entry]) -> Iterator[Row]:
    yield "round", "time (UTC)", "voted", "no vote", "excluded", "absent", "up", "down", "adapter"
    for entry in entries:
        if entry.kind == "round":
            facts = entry.facts
            who = (str(len(facts[k])) for k in ("voters", "abstained", "excluded", "absent"))
            sizes = (megabytes(facts["bytes_up"]), megabytes(facts["bytes_down"]))
            yield _number(facts), _when(entry), *who, *sizes, _short(facts["after"])


def _client_rows(entries: Sequence[Entry]) -> Iterator[Row]:
    yield "round", "time (UTC)", "what", "played", "succeeded", "received", "sent", "up"
    for entry in entries:
        if entry.kind == "audited":
            verdict = "passed" if entry.facts["passed"] else "did not pass"
            yield _number(entry.facts), _when(entry), f"audit: {verdict}", *[""] * 5
        if entry.kind in ("answered", "resent"):
            facts: Mapping[str, Any] = entry.facts
            episodes = facts.get("episodes", {})
            played = (str(episodes.get(key, "")) for key in ("played", "succeeded"))
            adapters = (_short(facts.get(key)) for key in ("received", "sent"))
            up = megabytes(facts["bytes_up"])
            yield _number(facts), _when(entry), entry.kind, *played, *adapters, up


ROWS = {"server": _server_rows}
NOUNS = {
    "round": "round",
    "decided": "decision",
    "answered": "answer",
    "resent": "repetition",
    "forgotten": "erasure",
    "removed": "removal",
    "brought": "arrival",
    "left": "departure",
    "audited": "audit",
    "summed": "sum",
}


def _exclusions(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        for left_out in entry.facts.get("excluded", ()):
            exclusion = Exclusion.model_validate(left_out)
            without = _safe(f"{exclusion.client}: {exclusion.text}")
            yield f"round {_number(entry.facts)} without {without}"


def _table(rows: Iterator[Row]) -> Iterator[str]:
    safe_rows = [tuple(map(_safe, row)) for row in rows]
    widths = [max(len(row[column]) for row in safe_rows) for column in range(len(safe_rows[0]))]
    for row in safe_rows:
        yield "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip()


def _number(facts: Mapping[str, Any]) -> str:
    late = " (late)" if facts.get("recovered") else ""
    return f"{facts['round']}{late}"


def _when(entry: Entry) -> str:
    try:
        return f"{datetime.fromtimestamp(entry.time, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):  # no year has that number
        return str(entry.time)


def _short(digest: str | None) -> str:
    return digest[:SHORT] if digest else "-"


def _safe(text: str) -> str:
    """Control characters are shown as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
