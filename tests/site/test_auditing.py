"""An answer leaves after it was judged and passed; of one that did not, a number leaves.

The sites are toys without a model, so an audit finds what the test says.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from fedse.audit.conduct import AuditPlan
from fedse.audit.verdict import AuditResult, AuditRules
from fedse.config.schema import Config
from fedse.errors import ConfigError, TrainError
from fedse.events import silent
from fedse.faults import Fault
from fedse.ledger.audits import audit_fault
from fedse.ledger.chain import FILE, examine
from fedse.ledger.databases import outbox_audits
from fedse.ledger.entries import audit_entries
from fedse.ledger.verifying import verify_ledger
from fedse.ledger.writing import read_ledger
from fedse.method.site import Site
from fedse.protocol import Question, SiteReply
from fedse.site import answer as serve_module
from fedse.site import auditing
from fedse.site.answer import answer
from fedse.site.answers import AnsweredRounds
from fedse.site.rules import first_rules, read_rules, set_pause, write_rules
from fedse.store.outbox import Outbox
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import ClientStats
from tests.audit.test_verdict import found

SPEC = toy_spec()
CONFIG = Config.model_validate(
    {
        "run": {"name": "toy", "rounds": 9},
        "rollout": {"episodes": 10},
        "train": {"optimizer": "kept"},
        "eval": {"episodes": 4},
        "clients": [{"name": "a", "env": "fedse.testing:CoinWorld"}],
    }
)
QUIET, LOUD = found(), found(auc=0.9)


def request_for(round: int) -> Question:
    return Question(
        experiment="toy",
        round=round,
        agreed=CONFIG.agreed_digest(),
        spec=SPEC.identity,
        adapter=toy_adapter(SPEC, round).digest,
        kind="train",
        evaluate=True,
    )


class Audited(NamedTuple):
    """A toy site with an audit due in every round; `finds` is what it finds, round by round."""

    home: Path
    site: Site
    finds: dict[int, AuditResult | Exception]
    audited: list[int]

    def ask(self, round: int) -> SiteReply:
        data, policy = toy_adapter(SPEC, round).to_bytes(), self.home / "policy.toml"
        return answer(request_for(round), data, self.site, CONFIG, policy=policy, emit=silent)

    def rule(self, **changes: object) -> None:
        rules = read_rules(self.home / "policy.toml")
        audit = rules.audit.model_copy(update=changes)
        write_rules(self.home / "policy.toml", rules.model_copy(update={"audit": audit}))


def open_audited(home: Path, monkeypatch: pytest.MonkeyPatch) -> Audited:
    site = open_toy_site(CONFIG, "a", home, clock=time.time)
    finds: dict[int, AuditResult | Exception] = {}
    audited: list[int] = []

    def audit_site(current, site, config, plan, *, round, least=0, **_) -> AuditResult:
        audited.append(round)
        result = finds.get(round, QUIET)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(auditing, "audit_site", audit_site)
    if not (home / "policy.toml").exists():
        rules = first_rules(CONFIG, adapter_bytes=SPEC.nbytes)
        audit = AuditRules(every=1)
        write_rules(home / "policy.toml", rules.model_copy(update={"audit": audit}))
    return Audited(home, site, finds, audited)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Audited]:
    made = open_audited(tmp_path, monkeypatch)
    yield made
    made.site.buffer.close()


def nothing_but(number: Fault) -> SiteReply:
    return SiteReply(ClientStats(), None, number)


def test_an_answer_that_passes_leaves_as_it_would_without_an_audit(toy: Audited, tmp_path: Path):
    plain = open_toy_site(CONFIG, "a", tmp_path / "plain", clock=time.time)
    data = toy_adapter(SPEC, 1).to_bytes()
    expected = serve_module.serve(request_for(1), data, plain, CONFIG, emit=silent)
    got = toy.ask(1)
    assert (got.adapter, got.fault) == (expected.adapter, Fault.NONE)
    assert got.adapter is not None
    assert toy.audited == [1]


def test_an_answer_that_does_not_pass_is_a_number_and_stays_one(toy: Audited):
    toy.finds[1] = LOUD
    assert toy.ask(1) == nothing_but(Fault.WITHHELD)
    assert toy.ask(1) == nothing_but(Fault.WITHHELD)
    toy.rule(every=0)
    assert toy.ask(1) == nothing_but(Fault.WITHHELD)
    assert toy.audited == [1]
    assert toy.site.buffer.outbox.kept_votes("toy") == []
    assert Fault.WITHHELD.abstains


def test_training_that_counts_for_nobody_leaves_no_moments(toy: Audited):
    toy.ask(1)
    before = toy.site.buffer.outbox.moments("toy", before=9)
    toy.finds[2] = LOUD
    toy.ask(2)
    assert toy.site.buffer.outbox.moments("toy", before=9) == before


def test_an_audit_that_breaks_lets_nothing_out_and_is_made_again(toy: Audited):
    toy.finds[1] = TrainError("out of memory")
    with pytest.raises(TrainError):
        toy.ask(1)
    assert toy.site.buffer.outbox.newest("toy") is None
    del toy.finds[1]
    assert toy.ask(1).adapter is not None
    assert toy.audited == [1, 1]


def test_without_a_model_an_audit_that_is_due_refuses(tmp_path: Path):
    site = open_toy_site(CONFIG, "a", tmp_path, clock=time.time)
    data, rules = toy_adapter(SPEC, 1).to_bytes(), AuditRules(every=1)
    with pytest.raises(ConfigError, match="cannot audit"):
        serve_module.serve(request_for(1), data, site, CONFIG, emit=silent, audit=rules)


def test_a_loss_that_learns_from_one_round_only_cannot_be_audited(tmp_path: Path):
    """An audit learns again from the buffer, which is not what such a reply was made of."""
    train = {"loss": "tests.toys.comparing:Comparing"}
    config = Config.model_validate({**CONFIG.model_dump(), "train": train})
    site = open_toy_site(config, "a", tmp_path, clock=time.time)
    watched = replace(site, probe=object())
    with pytest.raises(ConfigError, match="learns from the games of one round only"):
        auditing.audit_site(toy_adapter(SPEC, 1), watched, config, AuditPlan(), round=1)
    site.buffer.close()


def test_audits_come_at_first_then_every_so_many_rounds_and_after_each_failure(toy: Audited):
    toy.rule(every=3)
    toy.finds[4] = LOUD
    for round in range(1, 9):
        toy.ask(round)
    assert toy.audited == [1, 4, 5, 8]


def test_a_gate_that_asks_about_the_same_round_neither_hides_nor_inherits_an_audit(toy: Audited):
    toy.rule(every=3)
    toy.finds[4] = LOUD
    for round in range(1, 9):
        toy.ask(round)
        judged = request_for(round).model_copy(update={"kind": "evaluate"})
        data = toy_adapter(SPEC, round).to_bytes()
        reply = serve_module.serve(judged, data, toy.site, CONFIG, emit=silent)
        assert (reply.fault, reply.stats.eval_played) == (Fault.NONE, 4)
    assert toy.audited == [1, 4, 5, 8]
    assert verify_ledger(toy.home / FILE).finding is None


def test_a_site_that_missed_the_round_of_its_audit_makes_up_for_it(toy: Audited):
    toy.rule(every=3)
    for round in (1, 2, 6, 7):
        toy.ask(round)
    assert toy.audited == [1, 6]


def test_no_audit_is_made_unless_the_owner_asks_for_it(toy: Audited):
    toy.rule(every=0)
    assert toy.ask(1).adapter is not None
    assert toy.audited == []


def test_the_figures_are_in_the_sites_own_ledger_once(toy: Audited):
    toy.finds[2] = LOUD
    for round in (1, 2, 2):
        toy.ask(round)
    lines = audit_entries(examine(read_ledger(toy.home / FILE)).entries)
    assert [(line.round, line.passed, line.result) for _, line in lines] == [
        (1, True, QUIET),
        (2, False, LOUD),
    ]
    assert verify_ledger(toy.home / FILE).finding is None


def _die(toy: Audited, round: int, *, at: str) -> None:
    """The process ends where the test says, without another instruction."""

    def dies(*given: object, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if at == "before the audit":
        auditing.audit_site = dies  # type: ignore[assignment]
    if at == "before the answer is stored":
        Outbox.finish = dies  # type: ignore[method-assign]
    if at == "before the line about it":
        serve_module.note_audit = dies  # type: ignore[assignment]
    if at == "before it leaves":
        serve_module.note_answer = dies  # type: ignore[assignment]
    toy.ask(round)


KILLS = (
    "before the audit",
    "before the answer is stored",
    "before the line about it",
    "before it leaves",
)


@pytest.mark.parametrize("at", KILLS)
def test_kill_nine_lets_no_withheld_answer_out(tmp_path: Path, monkeypatch, at: str):
    child = os.fork()
    if not child:
        try:
            dying = open_audited(tmp_path, monkeypatch)
            dying.finds[1] = LOUD
            _die(dying, 1, at=at)
        finally:  # a failure must not go on with pytest's other tests in this process
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    again = open_audited(tmp_path, monkeypatch)
    again.finds[1] = LOUD
    assert again.site.buffer.outbox.kept_votes("toy") == []
    assert again.ask(1) == nothing_but(Fault.WITHHELD)
    stored = at in KILLS[2:]
    assert again.audited == ([] if stored else [1])
    lines = audit_entries(examine(read_ledger(again.home / FILE)).entries)
    assert [line.passed for _, line in lines] == [False]
    again.site.buffer.close()


def test_the_rules_of_an_audit_survive_being_written_read_and_paused(tmp_path: Path):
    path, rules = tmp_path / "policy.toml", first_rules(CONFIG, adapter_bytes=1)
    changed = rules.model_copy(update={"audit": AuditRules(every=4, max_auc=0.55)})
    write_rules(path, changed)
    assert read_rules(path) == changed
    set_pause(path, True)
    assert read_rules(path) == changed.model_copy(update={"pause": True})
    assert "# How well any attack may tell lessons" in path.read_text()


def test_rules_without_an_audit_make_none(tmp_path: Path):
    """As those of a site that joined before there were audits."""
    path = tmp_path / "policy.toml"
    path.write_text('experiments = ["toy"]\nmax_rounds = 3\nmax_bytes_up = 5\n')
    assert read_rules(path).audit.every == 0


def test_a_ledger_is_held_against_the_audits_in_the_buffer(toy: Audited, monkeypatch):
    monkeypatch.setattr(serve_module, "note_audit", lambda *given, **options: None)
    toy.ask(1)
    finding = verify_ledger(toy.home / FILE).finding
    assert finding is not None
    assert finding.reason == "has no line about the audit of round 1 before it"


def test_a_ledger_is_held_against_the_rules_since_they_were_last_changed(toy: Audited):
    toy.rule(every=0)
    toy.ask(1)
    toy.rule(every=3)
    assert verify_ledger(toy.home / FILE).finding is None
    os.utime(toy.home / "policy.toml", (0, 0))
    finding = verify_ledger(toy.home / FILE).finding
    assert finding is not None
    assert (
        finding.reason == "sends round 1 without the audit that policy.toml asks for with every = 3"
    )


def test_rounds_between_two_audits_need_none(toy: Audited):
    toy.rule(every=3)
    os.utime(toy.home / "policy.toml", (0, 0))
    toy.finds[4] = LOUD
    for round in range(1, 6):
        toy.ask(round)
    assert toy.audited == [1, 4, 5]
    assert verify_ledger(toy.home / FILE).finding is None


def test_an_answer_that_did_not_pass_and_was_sent_contradicts_its_audit(toy: Audited):
    toy.ask(1)
    entries = examine(read_ledger(toy.home / FILE)).entries
    failed = [
        entry.model_copy(update={"facts": {**entry.facts, "passed": False}})
        if entry.kind == "audited"
        else entry
        for entry in entries
    ]
    assert audit_fault(entries, {}, None) is None
    finding = audit_fault(failed, {}, None)
    assert finding is not None
    assert finding.reason == "sends an answer of round 1 that did not pass"
    (key,) = outbox_audits(toy.home / "buffer.db")
    finding = audit_fault(failed, {key: True}, None)
    assert finding is not None
    assert finding.reason == "differs from the audit of round 1 in the buffer"


def test_the_console_says_of_a_withheld_answer_that_it_stayed(toy: Audited):
    told: list[str] = []
    watch = AnsweredRounds(toy.home, CONFIG, "a", tell=told.append)
    toy.finds[1] = LOUD
    toy.ask(1)
    toy.ask(2)
    watch.look(0.0)
    first, second = (line for line in told if line.startswith("round"))
    assert first.startswith("round 1 withheld by the audit, the server got number 40 and nothing")
    assert second.startswith("round 2 answered: ")
