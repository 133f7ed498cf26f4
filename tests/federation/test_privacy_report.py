"""The page for the officer: it asks for nothing, names nobody and says nothing that is untrue."""

import base64
import hashlib
import re
from contextlib import closing
from pathlib import Path

from fedse.audit.scores import Estimate
from fedse.audit.verdict import AttackFigures, AuditResult, CanaryFigures, nothing_to_audit
from fedse.cli.privacy_report import flat
from fedse.ledger.audits import note_audit
from fedse.ledger.chain import FILE, examine
from fedse.ledger.entries import AnswerEntry, AuditEntry
from fedse.ledger.record import note_answer
from fedse.ledger.writing import read_ledger
from fedse.protocol import SiteReply
from fedse.store.buffer import Buffer
from fedse.types import ClientStats
from tests.federation.test_erase_command import customer as customer
from tests.federation.test_erase_command import home as home
from tests.federation.test_erase_command import site
from tests.needs import needs
from tests.report.test_page import Read

needs("flwr", "jinja2")

FORBIDDEN = ("anonym", "not personal data", "no personal data")
SECTIONS = [
    "leaves", "rules", "redaction", "storage", "erasure", "budget", "audit", "ledger",
]  # fmt: skip


def page_of(home: Path, name: str = "page.html") -> str:
    assert site("report", str(home.parent / name), home=home) == 0
    return (home.parent / name).read_text()


def answered(home: Path) -> None:
    """One answer is on record, as a worker leaves it."""
    reply = SiteReply(ClientStats(played=8, succeeded=5, buffered=6), b"0123456789")
    with closing(Buffer(home / "buffer.db")) as buffer:
        buffer.outbox.finish("clinics", 1, "a" * 64, reply)
    entry = AnswerEntry(
        experiment="clinics", round=1, request="a" * 64, received="b" * 64,
        sent=hashlib.sha256(b"0123456789").hexdigest(), bytes_down=77, bytes_up=4321,
        episodes={"played": 8, "succeeded": 5, "buffered": 6, "broken": 0, "truncated": 0,
                  "added": 0, "eval_played": 0, "eval_succeeded": 0},
    )  # fmt: skip
    note_answer(home, "alpha", entry, fresh=True, clock=lambda: 1.0)


def test_it_is_one_file_that_asks_for_nothing(home: Path):
    text = page_of(home)
    read = Read(text)
    assert [name for name in read.ids if name in SECTIONS] == SECTIONS
    assert read.scripts == []
    assert [a for a in read.addresses if not a.startswith(("#", "data:,"))] == []
    assert not re.search(r"https?://|@import|url\(", text)
    style = re.search(r"<style>(.*?)</style>", text, flags=re.S)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in read.policy
    assert read.policy.startswith("default-src 'none'")
    assert "size: A4" in style[1]
    assert "prefers-color-scheme: dark" in style[1]
    for tag in ("html", "head", "body", "main", "h1"):
        assert read.tags.count(tag) == 1
    assert read.tags.count("section") == len(SECTIONS)


def test_it_names_nobody_and_promises_nothing_untrue(home: Path, customer: str):
    with closing(Buffer(home / "buffer.db")) as buffer:
        texts = [t for e in buffer.episodes() for turn in e.turns for t in (turn.observation,)]
        ids = {e.task.id for e in buffer.episodes()}
    names = {name.partition("-")[0].rpartition("/")[2] for name in ids}
    assert site("forget", customer, home=home) == 0
    text = page_of(home)
    assert not any(word in text.lower() for word in FORBIDDEN)
    plain = re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    assert not any(piece in plain for piece in (*texts, *ids))
    assert not any(re.search(rf"\b{re.escape(name)}\b", plain) for name in {*names, customer})


def test_it_says_what_the_files_say(home: Path, customer: str, tmp_path: Path):
    answered(home)
    assert site("forget", customer, home=home) == 0
    before = page_of(home)
    head = examine(read_ledger(home / FILE)).entries[-1]
    assert head.kind == "forgotten"
    for said in (head.hash, head.facts["mark"][:12], "4,321", "max_rounds", "sound"):
        assert said in before
    assert "not measured" in before
    assert re.search(r"<dt>state</dt><dd>off</dd>", before)
    assert re.search(r"encryption at rest</dt><dd>off", before)
    assert site("encrypt", "--key", str(tmp_path / "k"), home=home) == 0
    after = page_of(home, "after.html")
    assert re.search(r"encryption at rest</dt><dd>on, key [0-9a-f]{16}", after)


def audited(home: Path, round: int, *, auc: float, passed: bool) -> None:
    figures, bits = Estimate(value=auc, low=auc, high=auc), Estimate(value=2, low=1, high=3)
    typed = CanaryFigures(place="typed", planted=5, candidates=4096, bits=bits, most=3.0)
    result = AuditResult(
        lessons=120,
        shadows=4,
        attacks=(AttackFigures(attack="loss", auc=figures, tpr=figures),),
        canaries=(typed,),
        controls=(),
    )
    entry = AuditEntry(
        experiment="clinics", round=round, request=None, passed=passed, result=result
    )
    note_audit(home, "alpha", entry, clock=lambda: 1.0)


def test_it_tells_of_the_newest_audit(home: Path):
    audited(home, 1, auc=0.75, passed=False)
    audited(home, 2, auc=0.51, passed=True)
    text = page_of(home)
    assert "<dt>AUC, strongest attack</dt><dd>0.510" in text
    assert "<dt>verdict</dt><dd>passed</dd>" in text
    assert "0.750" not in text
    assert "not measured" not in text
    entry = AuditEntry(
        experiment="clinics", round=3, request=None, passed=False, result=nothing_to_audit(7)
    )
    note_audit(home, "alpha", entry, clock=lambda: 1.0)
    assert "7 lessons are too few for an audit" in page_of(home, "few.html")


def test_rules_within_rules_have_their_whole_names(home: Path):
    assert flat({"a": 1, "b": {"c": 2, "d": None}}) == {"a": 1, "b.c": 2, "b.d": None}
    assert "<dt>audit.max_auc</dt><dd>0.6</dd>" in page_of(home)


def test_a_page_is_not_overwritten(home: Path):
    page_of(home)
    assert site("report", str(home.parent / "page.html"), home=home) != 0
