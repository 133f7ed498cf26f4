"""`fedse federation status`: who is connected and doing what, the last rounds, what expires."""

import json as json_format
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedse.aggregate.quarantine import quarantined, strike_history
from fedse.cli.display import Json
from fedse.cli.federation_options import HERE, Folder, require_flower
from fedse.cli.phrases import clock_time, waiting_text
from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.errors import StoreError, boundary
from fedse.ledger.chain import FILE as LEDGER
from fedse.stats.rates import micro, rates
from fedse.store.run import Pardon
from fedse.store.run_folder import open_run
from fedse.types import ClientStats

if TYPE_CHECKING:
    from fedse.federation.enrolment import Member
    from fedse.federation.folder import Federation
    from fedse.federation.heard import SitePresence

# As many as a screen shows.
LAST_ROUNDS = 10


class Committed(NamedTuple):
    """What a run's database says of its rounds."""

    config: Config
    results: list[RoundResult]
    pardons: list[Pardon]
    evals: Mapping[int, Mapping[str, ClientStats]]
    """Of the last rounds: what was measured with the adapter of that round."""

    @property
    def round(self) -> int:
        return self.results[-1].index if self.results else 0

    @property
    def out(self) -> list[str]:
        """The members that are quarantined, and so not asked."""
        past = strike_history(self.results, {one.client: one.after for one in self.pardons})
        members = [client.name for client in self.config.clients]
        return sorted(quarantined(past, members, limit=self.config.aggregate.strikes))


def read_committed(run_dir: Path) -> Committed:
    """What the run has come to, though a server may be writing it."""
    opened = closing(open_run(run_dir, clock=time.time))
    with boundary(StoreError, f"run {run_dir}"), opened as run:
        results = list(run.results())
        evals = {one.index: run.evals(one.index) for one in results[-LAST_ROUNDS:]}
        return Committed(run.config, results, run.pardons(), evals)


def status(*, dir_: Folder = HERE, json: Json = False) -> None:
    """Show who is connected, since when and doing what, the last round, and what expires soon.

    Example: fedse federation status --json
    """
    require_flower()
    from fedse.federation import folder

    report = status_of(folder.open_federation(dir_), now=time.time())
    if json:
        print(json_format.dumps(report))
        return
    print("\n".join(status_lines(report)))
    for line in report["warnings"]:
        print(f"warning: {line}", file=sys.stderr)


def status_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report for people; what sites do now is known only while the federation is served."""
    yield f"{report['federation']} at {report['server']}, key {report['fingerprint']}"
    yield f"round {report['round']} of {report['rounds']}"
    if report["serving"]:
        yield waiting_text(report["waiting_for"], of=report["expected"])
    for site in report["sites"]:
        doing = f"  {presence_text(site['now'], now=report['time']):<34}"
        doing = doing if report["serving"] else ""
        yield f"  {site['name']:<16}  {site['state']:<12}{doing}  {site['last'] or '-'}"
    if not report["serving"]:
        yield "the server does not run, so nobody is connected"


def presence_text(seen: Mapping[str, Any] | None, *, now: float) -> str:
    """What a site does and since when."""
    if seen is None:
        return "-"
    words = {
        "working": f"working on round {seen['round']}",
        "sent": f"sent round {seen['round']}",
        "idle": "connected",
        "silent": "silent",
        "left": "left",
        "away": "not connected",
    }
    since = f" since {clock_time(seen['since'], now=now)}" if seen["since"] else ""
    return f"{words[seen['doing']]}{since}"


def status_of(federation: "Federation", *, now: float, tick: float | None = None) -> dict[str, Any]:
    """Everything that is known of a federation, without its keys; the coordinator's page has it.

    `now` is the date; `tick`, which tells how long ago a site was heard, is of a clock that nobody
    can set, and is asked for here if it is not given.
    """
    from fedse.federation.expiry import certificates_of, coordinator_warnings
    from fedse.federation.heard import is_served, presences

    card, done = federation.card, read_committed(federation.run)
    members, seen = (
        federation.sites.members,
        presences(federation, time.monotonic() if tick is None else tick),
    )
    expected = expected_sites(done, members)
    ends = {
        one.name: {"ends": one.ends, "days_left": one.days_left(now)}
        for one in certificates_of(federation)
    }
    return {
        "federation": card.name,
        "server": f"{card.host}:{card.port}",
        "fingerprint": card.fingerprint,
        "serving": is_served(federation),
        "time": now,
        "round": done.round,
        "rounds": done.config.run.rounds,
        "expected": len(expected),
        "waiting_for": waiting_for(expected, seen, open_round=done.round + 1),
        "sites": _sites(done, members, seen, now),
        "quarantined": done.out,
        "last_rounds": [_round(one, done) for one in reversed(done.results[-LAST_ROUNDS:])],
        "ledger": ledger_head(federation.run / LEDGER),
        "certificates": ends,
        "warnings": coordinator_warnings(federation, now),
    }


def expected_sites(done: Committed, members: "Mapping[str, Member]") -> list[str]:
    """The sites the open round asks: neither revoked, nor quarantined, nor to join later."""
    joined = {one.name for one in done.config.clients if one.joins <= done.round + 1}
    out = {*done.out, *(name for name, one in members.items() if one.state == "revoked")}
    return sorted(joined - out)


def waiting_for(
    expected: Sequence[str], seen: "Mapping[str, SitePresence]", *, open_round: int
) -> list[str]:
    """The expected sites whose answer to the open round has not begun to arrive."""
    sent = {n for n, one in seen.items() if one.doing == "sent" and one.round == open_round}
    return [name for name in expected if name not in sent]


def _sites(
    done: Committed,
    members: "Mapping[str, Member]",
    seen: "Mapping[str, SitePresence]",
    now: float,
) -> list[dict[str, Any]]:
    answers = _last_answers(done)
    return [
        {
            "name": name,
            "state": "expired" if m.state == "invited" and now >= m.expires else m.state,
            "now": seen[name]._asdict() if name in seen else None,
            "last": answers.get(name, ""),
        }
        for name, m in sorted(members.items())
    ]


def _last_answers(done: Committed) -> dict[str, str]:
    """What each site did in the last committed round."""
    answers: dict[str, str] = {}
    if done.results:
        last = done.results[-1]
        answers |= {e.client: f"excluded: {e.text}" for e in last.excluded}
        answers |= dict.fromkeys(last.absent, "absent")
        answers |= dict.fromkeys(last.abstained, "answered without a vote")
        answers |= dict.fromkeys(last.voters, "voted")
        again = [one.client for one in done.pardons if one.after == last.index]
        answers |= dict.fromkeys(again, "pardoned, is asked again from the next round on")
    return answers


def _round(result: RoundResult, done: Committed) -> dict[str, Any]:
    """A committed round: who voted, who did not count, and its adapter's success if known."""
    measured = micro(list(rates(done.evals[result.index]).values()))
    low, high = measured.interval
    rate = {"rate": measured.value, "low": low, "high": high, "games": measured.n}
    return {
        "round": result.index,
        "voted": list(result.voters),
        "without_vote": list(result.abstained),
        "excluded": {one.client: one.text for one in result.excluded},
        "absent": list(result.absent),
        "seconds": result.seconds,
        "success": rate if measured.n else None,
    }


def ledger_head(file: Path) -> str:
    """The hash of the last whole line; empty where there is none. Nothing is verified."""
    try:
        lines = file.read_bytes().split(b"\n")[:-1]
        return str(json_format.loads(lines[-1])["hash"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""
