"""Who does what in a federation now: one record, which the console, `status` and the page show."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedse.aggregate.quarantine import WINDOW, quarantined, strike_history
from fedse.cli.phrases import next_text, waiting_text
from fedse.committed import RoundResult
from fedse.config.rounds import Rounds
from fedse.config.schema import Config
from fedse.errors import StoreError, boundary
from fedse.ledger.chain import FILE as LEDGER
from fedse.stats.rates import micro, rates
from fedse.store.agreements import amendments_of
from fedse.store.next_round import NextRound, read_next
from fedse.store.run import Pardon
from fedse.store.run_folder import open_run
from fedse.types import ClientStats

if TYPE_CHECKING:
    from fedse.federation.enrolment import Member
    from fedse.federation.folder import Federation
    from fedse.federation.heard import SitePresence

# As many as fit on a screen.
LAST_ROUNDS = 10
# However many people look, it is computed once a second.
FRESH_SECONDS = 1.0


class Committed(NamedTuple):
    """The last rounds in a run's database."""

    config: Config
    results: list[RoundResult]
    pardons: list[Pardon]
    evals: Mapping[int, Mapping[str, ClientStats]]
    """For the last rounds: what was measured with the adapter of that round."""

    @property
    def round(self) -> int:
        return self.results[-1].index if self.results else 0

    @property
    def out(self) -> list[str]:
        """The sites that are quarantined, and so not asked."""
        past = strike_history(self.results, {one.client: one.after for one in self.pardons})
        members = [client.name for client in self.config.clients]
        return sorted(quarantined(past, members, limit=self.config.aggregate.strikes))


class SiteView(NamedTuple):
    """One site of the federation."""

    name: str
    state: str
    """Of its key: not invited, invited, expired, enrolled, revoked."""
    now: "SitePresence | None"
    """What it does; None = it cannot be connected, or the federation is not served."""
    last: str
    """What it did in the last committed round."""


class FederationView(NamedTuple):
    """Everything that is known of a federation, without its keys."""

    federation: str
    server: str
    fingerprint: str
    serving: bool
    time: float
    round: int
    rounds: Rounds
    next: NextRound | None
    """The round that is waited for and what it waits for; None = a round is open, or none comes."""
    expected: tuple[str, ...]
    """The sites that the open round asks: not revoked, not quarantined, and already joined."""
    sites: tuple[SiteView, ...]
    quarantined: list[str]
    last_rounds: list[dict[str, Any]]
    ledger: str
    certificates: dict[str, dict[str, Any]]
    warnings: list[str]
    agreements: Sequence[dict[str, Any]] = ()
    """The amendments that hold or will, each with who has accepted it and who has not."""

    @property
    def seen(self) -> "dict[str, SitePresence]":
        return {site.name: site.now for site in self.sites if site.now is not None}

    @property
    def words(self) -> dict[str, str]:
        """What every enrolled site does, in a word."""
        return {name: one.doing for name, one in self.seen.items()}

    @property
    def connected(self) -> list[str]:
        """The expected sites that are connected."""
        seen = self.seen
        return [n for n in self.expected if n in seen and seen[n].connected is not None]

    @property
    def waiting_for(self) -> list[str]:
        """The expected sites that have not begun to answer the open round."""
        sent = {n for n, s in self.seen.items() if s.doing == "sent" and s.round == self.round + 1}
        return [name for name in self.expected if name not in sent]

    @property
    def waiting(self) -> str:
        """Who is waited for, in words."""
        if not self.serving:
            return "the server is not running, so no site is connected"
        if self.next is not None:
            return next_text(self.next, now=self.time)
        return waiting_text(self.waiting_for, of=len(self.expected))

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        sites = [{**one._asdict(), "now": one.now and one.now._asdict()} for one in self.sites]
        counts = {"expected": len(self.expected), "connected": len(self.connected)}
        waiting = {"waiting_for": self.waiting_for, "waiting": self.waiting}
        coming = {"next": self.next and self.next.model_dump(exclude={"news", "begun"})}
        return {**self._asdict(), **counts, **waiting, **coming, "sites": sites}


View = Callable[[], FederationView]


def view_of(
    federation: "Federation",
    *,
    now: float,
    tick: float | None = None,
    done: Committed | None = None,
) -> FederationView:
    """The view at the date `now`.

    `tick` tells how long ago a site was heard; it is of a clock that nobody can set, and is read
    here if it is not given. `done` is what the run's database says, read here if it is not given.
    """
    from fedse.federation.expiry import certificates_of, coordinator_warnings
    from fedse.federation.heard import is_served, presences

    card, done = federation.card, done or read_committed(federation.run)
    members = federation.sites.members
    seen = presences(federation, time.monotonic() if tick is None else tick)
    return FederationView(
        federation=card.name,
        server=f"{card.host}:{card.port}",
        fingerprint=card.fingerprint,
        serving=is_served(federation),
        time=now,
        round=done.round,
        rounds=done.config.run.rounds,
        next=_next(federation.run, done, now),
        expected=_expected(done, members),
        sites=tuple(_sites(done, members, seen, now)),
        quarantined=done.out,
        last_rounds=[_round(one, done) for one in reversed(done.results[-LAST_ROUNDS:])],
        agreements=amendments_of(federation.run, done.round + 1),
        ledger=ledger_head(federation.run / LEDGER),
        certificates={
            one.name: {"ends": one.ends, "days_left": one.days_left(now)}
            for one in certificates_of(federation)
        },
        warnings=coordinator_warnings(federation, now),
    )


def fresh_view(federation: "Federation") -> View:
    """The view as it was a second ago at most, from whatever thread.

    The run's database is read again only when its files have changed.
    """
    lock, kept = threading.Lock(), list[tuple[float, FederationView]]()
    files = [federation.run / name for name in ("state.db", "state.db-wal")]
    read: list[tuple[object, Committed]] = []

    def view() -> FederationView:
        with lock:
            tick = time.monotonic()
            if kept and tick - kept[0][0] < FRESH_SECONDS:
                return kept[0][1]
            # Taken before reading, so that a write in between counts at the next look.
            stamp = [(f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.is_file()]
            if not read or read[0][0] != stamp:
                read[:] = [(stamp, read_committed(federation.run))]
            kept[:] = [(tick, view_of(federation, now=time.time(), tick=tick, done=read[0][1]))]
            return kept[0][1]

    return view


def read_committed(run_dir: Path) -> Committed:
    """The state of a run, also while a server is writing it."""
    opened = closing(open_run(run_dir, clock=time.time))
    with boundary(StoreError, f"run {run_dir}"), opened as run:
        results = list(run.recent(WINDOW))
        evals = {one.index: run.evals(one.index) for one in results[-LAST_ROUNDS:]}
        return Committed(run.config, results, run.pardons(), evals)


def _next(run: Path, done: Committed, now: float) -> NextRound | None:
    """What the run waits for; a round whose time has come is open, or about to be."""
    found = read_next(run)
    waits = found and found.round == done.round + 1 and not found.begun and found.at > now
    return found if waits else None


def _expected(done: Committed, members: "Mapping[str, Member]") -> tuple[str, ...]:
    joined = {one.name for one in done.config.clients if one.joins <= done.round + 1}
    out = {*done.out, *(name for name, one in members.items() if one.state == "revoked")}
    return tuple(sorted(joined - out))


def _sites(
    done: Committed,
    members: "Mapping[str, Member]",
    seen: "Mapping[str, SitePresence]",
    now: float,
) -> Iterator[SiteView]:
    answers = _last_answers(done)
    for name, one in sorted(members.items()):
        state = "expired" if one.state == "invited" and now >= one.expires else one.state
        yield SiteView(name, state, seen.get(name), answers.get(name, ""))


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
        answers |= dict.fromkeys(again, "pardoned, takes part again from the next round")
    return answers


def _round(result: RoundResult, done: Committed) -> dict[str, Any]:
    """A committed round: who voted, whose vote was not counted, and its adapter's success."""
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
        return str(json.loads(lines[-1])["hash"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""
