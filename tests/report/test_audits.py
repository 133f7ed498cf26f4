"""The audit in the report: the last one of each client, by the attack that found most."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedse.audit.verdict import nothing_to_audit
from fedse.ledger.audits import note_audit
from fedse.ledger.entries import AuditEntry
from fedse.report.audits import audit
from fedse.report.facts import RunFacts, last_audits
from fedse.report.sections import run_sections
from tests.audit.test_verdict import found
from tests.report.runs import made_up


def entry(result, *, round: int = 1, passed: bool = True) -> AuditEntry:
    return AuditEntry(experiment="toy", round=round, request=None, passed=passed, result=result)


@pytest.fixture
def facts(tmp_path: Path) -> RunFacts:
    return made_up(tmp_path, rounds=2, clients={"a": "maze", "b": "wordle"})


def test_a_run_that_was_not_audited_has_no_such_section(facts: RunFacts):
    assert facts.audits == {}
    assert "Audit" not in [section.title for section in run_sections(facts, "")]


def test_the_newest_line_of_each_clients_ledger_counts(tmp_path: Path):
    for name, auc in (("b", 0.5), ("a", 0.5), ("a", 0.7)):
        home = tmp_path / "clients" / name
        home.mkdir(parents=True, exist_ok=True)
        note_audit(home, name, entry(found(auc=auc)), clock=lambda: 1.0)
    audits = last_audits(tmp_path)
    assert list(audits) == ["a", "b"]
    assert audits["a"].result == found(auc=0.7)


def test_the_attack_that_found_most_is_shown_with_its_interval(facts: RunFacts):
    shown = {
        "a": entry(found(auc=0.7, tpr=0.2, bits=4.0), passed=False),
        "b": entry(nothing_to_audit(3), passed=False),
        "c": entry(found(control=0.1), passed=False),
    }
    table = audit(replace(facts, audits=shown), "x").table
    assert table is not None
    [own] = table.where("client", "a")
    assert [own[key] for key in ("auc", "low", "high", "tpr", "typed", "seen")] == [
        0.7, 0.7, 0.7, 0.2, 4.0, 0.5,
    ]  # fmt: skip
    assert own["verdict"] == "did not pass"
    [few] = table.where("client", "b")
    assert few["auc"] is few["tpr"] is few["typed"] is None
    [broken] = table.where("client", "c")
    assert broken["verdict"] == "the audit did not work: observations"
    assert "Audit" in [s.title for s in run_sections(replace(facts, audits=shown), "")]
