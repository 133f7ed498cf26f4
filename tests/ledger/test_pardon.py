"""A pardon: durable, on record in the ledger, and in force from the next round on."""

import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from fedse.config.aggregation import AggregateSection
from fedse.config.judging import EvalSection
from fedse.config.schema import ClientSection, Config
from fedse.config.schema import RunSection as RunSection
from fedse.drivers.loop import federate
from fedse.errors import ConfigError, RunError
from fedse.ledger.chain import FILE, Entry
from fedse.ledger.pardon import grant_pardon
from fedse.ledger.record import note_pardons, run_ledger
from fedse.ledger.verifying import verify_ledger
from fedse.ledger.writing import Ledger
from fedse.protocol import Delivery, Question
from fedse.store.run import Run
from fedse.testing import toy_adapter, toy_spec
from fedse.types import ClientStats

SPEC = toy_spec()
NAMES = ("a", "b", "c")
CONFIG = Config(
    run=RunSection(rounds=8),
    eval=EvalSection(episodes=0),
    aggregate=AggregateSection(min_clients=2, strikes=2),
    clients=tuple(ClientSection(name=name, env="maze") for name in NAMES),
)


def noon() -> float:
    return 43200.0


def opened(path: Path) -> Run:
    return Run(path, CONFIG, SPEC, clock=noon)


class Stopped(RunError):
    """The server was stopped here."""


def go_on(
    path: Path, *, bad: Collection[int] = (), until: int = 8, meanwhile: Callable[[int], None]
) -> list[Collection[str]]:
    """Rounds until `until`; `a` sends half an adapter in the rounds in `bad`. Who was skipped."""
    skipped: list[Collection[str]] = []

    def ask(request: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
        if request.round > until:
            raise Stopped("stop")
        skipped.append({*NAMES} - {*of})
        meanwhile(request.round)
        for place, name in enumerate(NAMES):
            data = toy_adapter(SPEC, 10 * request.round + place).to_bytes()
            data = data[:9] if name == "a" and request.round in bad else data
            if name in of:
                yield Delivery(name, ClientStats(played=1), data)

    with closing(opened(path)) as run, suppress(Stopped):
        federate(run, ask, clock=noon)
    return skipped


def nothing(round: int) -> None:
    return None


def pardon(path: Path, client: str = "a", reason: str = "wrong version") -> int:
    with closing(opened(path)) as run:
        return grant_pardon(run, client, reason=reason, clock=noon).after


def lines(path: Path) -> list[Entry]:
    verdict = verify_ledger(path / FILE)
    assert verdict.finding is None
    return [entry for entry in verdict.entries if entry.kind == "pardoned"]


def test_who_was_pardoned_between_two_rounds_is_asked_in_the_next(tmp_path: Path):
    assert go_on(tmp_path, bad={1, 2}, until=4, meanwhile=nothing)[2:] == [{"a"}] * 2
    assert pardon(tmp_path) == 4
    assert go_on(tmp_path, meanwhile=nothing) == [set()] * 4
    with closing(opened(tmp_path)) as run:
        assert [r.voters for r in run.results()][4:] == [NAMES] * 4
    (line,) = lines(tmp_path)
    facts = {"client": "a", "after": 4, "reason": "wrong version", "recovered": False}
    assert (line.facts, line.signature is not None) == (facts, True)


def test_a_pardon_while_a_round_goes_on_counts_from_the_next(tmp_path: Path):
    def meanwhile(round: int) -> None:
        if round == 5:
            assert pardon(tmp_path) == 4

    skipped = go_on(tmp_path, bad={1, 2}, meanwhile=meanwhile)
    assert skipped == [set(), set()] + [{"a"}] * 3 + [set()] * 3
    assert len(lines(tmp_path)) == 1
    with closing(opened(tmp_path)) as run:
        kinds = [[e.kind for e in r.excluded] for r in run.results()]
    assert kinds == [["rejected"]] * 2 + [["quarantined"]] * 3 + [[]] * 3


def test_a_second_quarantine_needs_new_strikes_and_a_second_pardon(tmp_path: Path):
    go_on(tmp_path, bad={1, 2}, until=3, meanwhile=nothing)
    pardon(tmp_path)
    skipped = go_on(tmp_path, bad={4, 5}, until=6, meanwhile=nothing)
    assert skipped == [set(), set(), {"a"}]
    assert pardon(tmp_path, reason="again") == 6
    assert go_on(tmp_path, meanwhile=nothing) == [set()] * 2
    assert [line.facts["after"] for line in lines(tmp_path)] == [3, 6]


def test_granting_it_twice_is_granting_it_once(tmp_path: Path):
    go_on(tmp_path, bad={1, 2}, until=3, meanwhile=nothing)
    assert pardon(tmp_path) == pardon(tmp_path, reason="other words") == 3
    (line,) = lines(tmp_path)
    assert line.facts["reason"] == "wrong version"


@pytest.mark.parametrize(("client", "strikes"), [("a", 1), ("b", 0)])
def test_who_is_not_in_quarantine_cannot_be_pardoned(tmp_path: Path, client: str, strikes: int):
    go_on(tmp_path, bad={1}, until=3, meanwhile=nothing)
    with pytest.raises(ConfigError, match=f"replies of {strikes} rounds were rejected.* is 2"):
        pardon(tmp_path, client)
    assert lines(tmp_path) == []


def test_a_line_that_a_kill_prevented_is_missing_until_the_next_start_writes_it(tmp_path: Path):
    go_on(tmp_path, bad={1, 2}, until=3, meanwhile=nothing)
    with closing(opened(tmp_path)) as run:
        run.pardon("a", reason="x")
    finding = verify_ledger(tmp_path / FILE).finding
    assert finding
    assert "the pardon of a after round 3" in finding.reason
    with closing(opened(tmp_path)) as run:
        run_ledger(run, clock=noon)
        run_ledger(run, clock=noon)
    (line,) = lines(tmp_path)
    assert line.facts["recovered"] is True


def test_a_pardon_in_the_ledger_alone_or_with_other_words_is_found(tmp_path: Path):
    go_on(tmp_path, bad={1, 2}, until=3, meanwhile=nothing)
    pardon(tmp_path)
    for change in ("UPDATE pardon SET reason = 'bribe'", "DELETE FROM pardon"):
        with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
            db.execute(change)
        finding = verify_ledger(tmp_path / FILE).finding
        assert finding
        assert "a pardon of a that the run did not grant" in finding.reason


def test_a_run_from_before_there_were_pardons_is_sound(tmp_path: Path):
    go_on(tmp_path, until=2, meanwhile=nothing)
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        db.execute("DROP TABLE pardon")
    assert verify_ledger(tmp_path / FILE).finding is None


def test_two_that_write_it_at_once_write_one_line(tmp_path: Path):
    """As when the server starts while the pardon is granted: both had the ledger open."""
    go_on(tmp_path, bad={1, 2}, until=3, meanwhile=nothing)
    with closing(opened(tmp_path)) as run:
        run.pardon("a", reason="x")
        both = [Ledger(tmp_path, role="server", name="x", clock=noon) for _ in range(2)]
        note_pardons(both[0], run)
        note_pardons(both[1], run, recovered=True)
    assert [line.facts["recovered"] for line in lines(tmp_path)] == [False]
