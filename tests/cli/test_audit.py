"""`fedse privacy audit` as a person reads it and as a program does."""

import json
from pathlib import Path

import pytest

from fedse.api.auditing import ClientAudit
from fedse.audit.verdict import AuditRules, nothing_to_audit
from fedse.cli import audit as audit_module
from fedse.cli.app import start
from fedse.cli.audit import audit_lines
from fedse.faults import Fault
from fedse.ledger.chain import examine
from fedse.ledger.entries import audit_entries
from fedse.ledger.writing import read_ledger
from tests.audit.test_verdict import found
from tests.needs import needs

RULES = AuditRules()
SMALL = """
[run]
name = "small"
rounds = 1
[rollout]
episodes = 2
context = 256
new_tokens = 8
max_turns = 2
[buffer]
demonstrations = 4
[eval]
episodes = 0
[[clients]]
name = "a"
env = "maze"
options = { prompt = "short" }
"""


def text_of(result, rules: AuditRules = RULES) -> str:
    return "\n".join(audit_lines(ClientAudit("a", 3, result), rules))


def test_a_quiet_audit_says_what_was_looked_at_and_that_it_passes():
    text = text_of(found(lessons=300))
    assert "a, a reply to round 3, as the server sees it" in text
    assert "300 lessons, 4 shadow adapters" in text
    assert "by its loss under the reply   0.50 (0.50 to 0.50)" in text
    assert "typed by the agent            1.40 (1.40 to 1.40)" in text
    assert "passes: nothing is above the limits" in text
    assert "few lessons" not in text


def test_what_is_above_a_limit_is_named():
    text = text_of(found(auc=0.8, lessons=300))
    assert "DOES NOT PASS: auc is 0.8, max_auc is 0.6" in text
    assert "passes:" not in text


def test_a_control_that_failed_is_named():
    text = text_of(found(control=0.5))
    assert "NO   lessons learned by heart, observations too, are recognised: 0.50" in text
    assert "DOES NOT PASS: the audit did not work" in text


@pytest.mark.parametrize("result", [nothing_to_audit(7), found(lessons=7)])
def test_too_few_lessons_are_said_to_be_too_few_and_how_many_are_enough(result):
    text = text_of(result)
    assert "an AUC near 0.5 needs 66 for +- 0.1, 258 for +- 0.05" in text
    assert "a false-alarm rate of 1 % means no false alarm at all" in text
    assert "DOES NOT PASS: 7 lessons are too few, min_episodes is 100" in text


@pytest.mark.parametrize(("auc", "code"), [(0.5, 0), (0.8, 40)])
def test_the_exit_code_says_whether_all_pass(monkeypatch, capsys, auc: float, code: int):
    audits = [ClientAudit("a", 1, found()), ClientAudit("b", 1, found(auc=auc))]
    monkeypatch.setattr(audit_module, "audit_run", lambda run, **given: audits)
    assert start(["privacy", "audit", "last", "--json"]) == code
    first, second = json.loads(capsys.readouterr().out)
    assert (first["client"], first["passed"], first["objections"]) == ("a", True, [])
    assert (second["client"], second["passed"]) == ("b", not code)
    assert second["attacker"] == "server"


def test_the_rules_of_a_site_can_judge_a_run(monkeypatch, tmp_path: Path, capsys):
    audits = [ClientAudit("a", 1, found(auc=0.57))]
    monkeypatch.setattr(audit_module, "audit_run", lambda run, **given: audits)
    policy = tmp_path / "policy.toml"
    policy.write_text(
        "experiments = []\nmax_rounds = 1\nmax_bytes_up = 1\n[audit]\nmax_auc = 0.55\n"
    )
    assert start(["privacy", "audit", "last"]) == 0
    assert start(["privacy", "audit", "last", "--policy", str(policy)]) == Fault.WITHHELD


@pytest.mark.parametrize("shadows", ["3", "2", "0"])
def test_a_number_of_shadows_that_makes_no_pairs_is_refused(shadows: str, capsys):
    assert start(["privacy", "audit", "last", "--shadows", shadows]) == 2
    assert "even number from 4 on" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_with_few_lessons_is_audited_as_such_and_the_line_is_in_the_ledger(
    tmp_path: Path, monkeypatch, capsys
):
    needs("torch")
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    (tmp_path / "small.toml").write_text(SMALL)
    assert start(["run", str(tmp_path / "small.toml"), "--plain"]) == 0
    capsys.readouterr()
    assert start(["privacy", "audit", "last", "--client", "a"]) == Fault.WITHHELD
    assert "lessons are too few" in capsys.readouterr().out
    (ledger,) = tmp_path.glob("runs/*/clients/a/ledger.jsonl")
    [(_, line)] = audit_entries(examine(read_ledger(ledger)).entries)
    assert (line.round, line.request, line.passed) == (1, None, False)
    assert start(["privacy", "audit", "last", "--client", "b"]) == 2
