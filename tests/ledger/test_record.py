"""Laws of what is recorded: one line per committed round and per finished answer, come what may."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.needs import needs

needs("cryptography")

from fedse.config.judging import EvalSection
from fedse.config.schema import ClientSection, Config, RolloutSection
from fedse.config.schema import RunSection as RunSection
from fedse.drivers import loop
from fedse.drivers.run import run_local
from fedse.errors import StoreError
from fedse.events import silent
from fedse.ledger.chain import FILE, Entry, examine
from fedse.ledger.entries import AnswerEntry, round_entry
from fedse.ledger.record import run_ledger
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.ledger.writing import Ledger
from fedse.method.site import Site
from fedse.protocol import Question
from fedse.site import answer as serve_module
from fedse.site.answer import serve
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter

SECRET = "canary-2b91e07c44"


def zero() -> float:
    return 0.0


def config(*, rounds: int = 3, broken: bool = False) -> Config:
    envs = ["fedse.testing:CoinWorld"] * 2 + ["nowhere:Env"] * broken
    members = [
        ClientSection(name=f"c{i}", env=env, options={} if env.startswith("nowhere") else OPTIONS)
        for i, env in enumerate(envs)
    ]
    return Config(
        run=RunSection(rounds=rounds),
        rollout=RolloutSection(episodes=6, batch=4),
        eval=EvalSection(episodes=4),
        clients=tuple(members),
    )


OPTIONS: dict[str, object] = {"secret": SECRET}


def open_site(cfg: Config, client: str, home: Path, *, clock: Callable[[], float]) -> Site:
    return replace(open_toy_site(cfg, client, home, clock=clock), home=home)


def open_run(path: Path, cfg: Config | None = None, **options: object) -> Run:
    return Run(path, cfg or config(), toy_spec(), clock=zero, **options)


def finish(path: Path, cfg: Config | None = None, **options: object) -> Adapter:
    with closing(open_run(path, cfg, **options)) as run:
        return run_local(run, clock=zero, open_site=open_site)


def told(path: Path, kind: str) -> list[Entry]:
    return [e for e in examine((path / FILE).read_bytes()).entries if e.kind == kind]


def rounds_told(path: Path) -> list[int]:
    return [entry.facts["round"] for entry in told(path, "round")]


def reason(path: Path) -> str:
    finding = verify_ledger(path / FILE).finding
    return f"{finding.line} {finding.reason}" if finding else ""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("done") / "run"
    finish(path, config(broken=True))
    return path


@pytest.fixture
def copied(done: Path, tmp_path: Path) -> Path:
    shutil.copytree(done, tmp_path / "run")
    return tmp_path / "run"


def test_a_run_is_told_from_beginning_to_end(done: Path):
    cfg, run = config(broken=True), open_run(done, config(broken=True))
    kinds = [entry.kind for entry in examine((done / FILE).read_bytes()).entries]
    assert kinds == ["genesis", "begun", "round", "round", "round", "finished"]
    (begun,) = told(done, "begun")
    assert begun.facts["agreed"] == cfg.agreed_digest()
    assert begun.facts["spec"] == toy_spec().identity
    assert begun.facts["members"] == ["c0", "c1", "c2"]
    for entry, result in zip(told(done, "round"), run.results(), strict=True):
        assert entry.facts == round_entry(result).model_dump(mode="json")
        assert [left_out["client"] for left_out in entry.facts["excluded"]] == ["c2"]
        assert entry.facts["bytes_up"] == result.bytes_up > 0
    verdict = verify_ledger(done / FILE)
    assert (verdict.finding, verdict.compared) == (None, "state.db")


def test_a_finished_run_that_is_resumed_tells_nothing_new(copied: Path):
    before = (copied / FILE).read_bytes()
    finish(copied, config(broken=True))
    assert (copied / FILE).read_bytes() == before


def test_both_sides_tell_of_the_same_adapters(done: Path):
    for client in ("c0", "c1"):
        answers = told(done / "clients" / client, "answered")[:3]
        given_out = [entry.facts["received"] for entry in answers]
        assert given_out == [entry.facts["before"] for entry in told(done, "round")]
    assert [path.parent.name for path in ledgers_in(done)] == ["run", "c0", "c1"]


@settings(max_examples=30)
@given(st.data())
def test_whatever_end_is_lost_a_restart_tells_each_committed_round_once(
    done: Path, draw: st.DataObject
):
    """A crash leaves some beginning of the file; the committed rounds are in the database."""
    whole = (done / FILE).read_bytes()
    cut = draw.draw(st.integers(0, len(whole)))
    with TemporaryDirectory() as name:
        path = Path(name) / "run"
        path.mkdir()
        shutil.copytree(done / "blobs", path / "blobs")
        for kept in (*done.glob("ledger.[kp]*"), *done.glob("state.db*")):
            shutil.copy(kept, path / kept.name)
        (path / FILE).write_bytes(whole[:cut])
        if cut <= whole.rindex(b"\n", 0, -1):  # some round or its line end is gone
            assert verify_ledger(path / FILE).finding is not None
        run = open_run(path, config(broken=True))
        run_ledger(run, clock=zero)
        run.close()
        assert rounds_told(path) == [1, 2, 3]
        assert len(told(path, "begun")) == 1
        assert verify_ledger(path / FILE).finding is None


def test_a_crash_between_commit_and_line_is_mended_by_the_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Crash(BaseException): ...

    def note(ledger: Ledger, result: object) -> None:
        if result.index == 2:
            raise Crash
        real(ledger, result)

    undisturbed, real = finish(tmp_path / "whole").digest, loop.note_round
    monkeypatch.setattr(loop, "note_round", note)
    path = tmp_path / "run"
    with pytest.raises(Crash):
        finish(path)
    assert (open_run(path).committed, rounds_told(path)) == (2, [1])
    assert reason(path).startswith("4 is missing, round 2: ")
    monkeypatch.undo()
    assert finish(path).digest == undisturbed
    assert rounds_told(path) == [1, 2, 3]
    assert [entry.facts["recovered"] for entry in told(path, "round")] == [False, True, False]
    assert reason(path) == ""


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import fedse.ledger.writing
from test_record import finish
real = fedse.ledger.writing._append_durably
def torn(file, data):
    if b'"kind":"round"' in data and b'"round":2' in data:
        os.write(file.fileno(), data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    real(file, data)
fedse.ledger.writing._append_durably = torn
finish(Path(sys.argv[1]))
"""


def test_kill_nine_in_the_middle_of_a_line(tmp_path: Path):
    """Half a line of round 2 is on disk when the process dies."""
    path = tmp_path / "run"
    command = [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)]
    killed = subprocess.run(command, capture_output=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert reason(path).startswith("4 is not whole")
    assert finish(path).digest == finish(tmp_path / "whole").digest
    assert rounds_told(path) == [1, 2, 3]
    assert reason(path) == ""


def test_a_ledger_that_cannot_be_written_stops_before_the_first_round(tmp_path: Path):
    path = tmp_path / "run"
    (path / FILE).mkdir(parents=True)
    with pytest.raises(StoreError, match="ledger"):
        finish(path)
    assert open_run(path).committed == 0


def test_a_ledger_that_breaks_later_stops_the_run_and_no_round_is_lost(tmp_path: Path):
    path = tmp_path / "run"
    aside = tmp_path / "aside"

    def lose(event: str, facts: dict[str, object]) -> None:
        if event == "commit.started" and facts["round"] == 2:
            (path / FILE).rename(aside)
            (path / FILE).mkdir()

    with pytest.raises(StoreError, match="ledger"):
        finish(path, observers=[lose])
    assert open_run(path).committed == 2
    (path / FILE).rmdir()
    aside.rename(path / FILE)
    assert finish(path).digest == finish(tmp_path / "whole").digest
    assert rounds_told(path) == [1, 2, 3]


def test_a_changed_ledger_is_not_gone_on_with(copied: Path):
    data = (copied / FILE).read_bytes()
    (copied / FILE).write_bytes(data.replace(b'"bytes_up":', b'"bytes_up":1', 1))
    with pytest.raises(StoreError, match="line 3 was changed"):
        finish(copied, config(broken=True))


def test_a_ledger_ahead_of_its_run_is_found_and_not_gone_on_with(copied: Path):
    with sqlite3.connect(copied / "state.db") as db:
        db.execute("DELETE FROM round WHERE idx = 3")
    assert reason(copied) == "5 records round 3, which the run did not commit"
    with pytest.raises(StoreError, match="line 5 records round 3, which the run did not commit"):
        finish(copied, config(broken=True))


def test_an_owner_who_signs_another_story_than_was_committed_is_found(copied: Path):
    lines = (copied / FILE).read_bytes().splitlines(keepends=True)
    (copied / FILE).write_bytes(b"".join(lines[:2]))
    ledger = Ledger(copied, role="server", name="run", clock=zero)
    for entry in examine(b"".join(lines)).entries[2:5]:
        ledger.append("round", {**entry.facts, "voters": ["c0"], "excluded": []})
    assert reason(copied) == "3 differs from round 1 as committed: voters, excluded"


def test_a_round_told_twice_or_from_nowhere_is_found(copied: Path):
    first, *_, last = told(copied, "round")
    ledger = Ledger(copied, role="server", name="run", clock=zero)
    ledger.append("round", first.facts)
    (copied / "state.db").unlink()
    assert reason(copied) == "7 records round 1, expected round 4"
    lines = (copied / FILE).read_bytes().splitlines(keepends=True)
    (copied / FILE).write_bytes(b"".join(lines[:6]))
    Ledger(copied, role="server", name="run", clock=zero).append(
        "round", {**last.facts, "round": 4}
    )
    assert reason(copied) == "7 starts round 4 with an adapter the round before did not make"


# A client's side.


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return open_site(config(), "c0", tmp_path / "c0", clock=zero)


def ask(site: Site, round: int = 1) -> tuple[Question, bytes]:
    """Of each round another adapter comes."""
    adapter, cfg = toy_adapter(toy_spec(), round), config()
    request = Question(
        experiment=cfg.run.name,
        round=round,
        agreed=cfg.agreed_digest(),
        spec=adapter.spec.identity,
        adapter=adapter.digest,
        kind="train",
        evaluate=True,
    )
    done = serve(request, adapter.to_bytes(), site, cfg, emit=silent)
    return request, done.adapter or b""


def kinds(site: Site) -> list[tuple[str, int]]:
    entries = examine((site.home / FILE).read_bytes()).entries[1:]
    return [(entry.kind, entry.facts["round"]) for entry in entries]


def test_an_answer_is_told_once_and_each_repetition_as_such(site: Site):
    request, sent = ask(site)
    assert ask(site)[1] == ask(site)[1] == sent
    assert kinds(site) == [("answered", 1), ("resent", 1), ("resent", 1)]
    (answer,) = told(site.home, "answered")
    assert answer.facts["request"] == request.digest
    assert answer.facts["received"] == request.adapter
    assert answer.facts["bytes_up"] == len(sent) == answer.facts["bytes_down"]
    assert answer.facts["episodes"]["played"] == 6
    assert answer.facts["recovered"] is False
    verdict = verify_ledger(site.home / FILE)
    assert (verdict.finding, verdict.compared) == (None, "buffer.db")


def test_an_answer_finished_before_a_crash_is_told_at_the_next_request(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    class Crash(BaseException): ...

    def crash(*_: object, **__: object) -> None:
        raise Crash

    def ask_and_crash(round: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(serve_module, "note_answer", crash)
            with pytest.raises(Crash):
                ask(site, round)

    ask(site, 1)
    ask_and_crash(2)
    assert reason(site.home).startswith("3 is missing, the answer of round 2: ")
    # Asked for the same round again it is a first answer, not a repetition.
    ask(site, 2)
    assert kinds(site) == [("answered", 1), ("answered", 2)]
    assert told(site.home, "answered")[1].facts["recovered"] is True
    ask_and_crash(3)
    # Nobody asks for round 3 again.
    ask(site, 4)
    assert [round for _, round in kinds(site)] == [1, 2, 3, 4]
    assert told(site.home, "answered")[2].facts["received"] is None
    assert reason(site.home) == ""


def test_a_cut_end_is_found_by_the_outbox(site: Site):
    for round in (1, 2, 3):
        ask(site, round)
    lines = (site.home / FILE).read_bytes().splitlines(keepends=True)
    for kept in (1, 2, 3):
        (site.home / FILE).write_bytes(b"".join(lines[:kept]))
        assert reason(site.home).startswith(f"{kept + 1} is missing, the answer of round {kept}")


def test_another_answer_than_the_one_told_is_found(site: Site):
    ask(site)
    with sqlite3.connect(site.home / "buffer.db") as db:
        db.execute("UPDATE outbox SET adapter = x'00'")
    assert reason(site.home) == "2 differs from the answer of round 1 in the outbox"


def test_another_answer_than_the_one_told_is_told_when_it_leaves(site: Site):
    """As after a site's folder was put back to an older state, and the round was worked on anew."""
    ask(site)
    other = toy_adapter(toy_spec(), 99)
    with closing(sqlite3.connect(site.home / "buffer.db")) as db, db:
        db.execute("UPDATE outbox SET adapter = ?", (other.to_bytes(),))
    ask(site)
    assert kinds(site) == [("answered", 1), ("answered", 1)]
    first, second = told(site.home, "answered")
    assert (second.facts["sent"], second.facts["recovered"]) == (other.digest, True)
    assert first.facts["sent"] != other.digest
    assert reason(site.home) == ""


def test_without_its_line_no_answer_leaves_and_none_is_lost(site: Site):
    (site.home / FILE).mkdir()
    with pytest.raises(StoreError, match="ledger"):
        ask(site)
    (site.home / FILE).rmdir()
    ask(site)
    assert kinds(site) == [("answered", 1)]
    assert reason(site.home) == ""


def test_nothing_an_agent_saw_is_in_a_clients_ledger(site: Site):
    for round in (1, 2, 2):
        ask(site, round)
    held = {path.name: SECRET.encode() in path.read_bytes() for path in site.home.iterdir()}
    assert any(found for name, found in held.items() if name.startswith("buffer.db"))
    own = {name: found for name, found in held.items() if name.startswith("ledger.")}
    assert own == {FILE: False, "ledger.key": False, "ledger.pub": False}


@pytest.mark.parametrize("field", ["experiment", "request", "received", "sent", "episodes"])
def test_no_field_of_a_clients_line_takes_text(site: Site, field: str):
    ask(site)
    good = told(site.home, "answered")[0].facts
    AnswerEntry.model_validate(good)
    text = {"it said": 1} if field == "episodes" else "The patient said: open the door"
    with pytest.raises(ValidationError):
        AnswerEntry.model_validate({**good, field: text})


def test_looking_changes_nothing(copied: Path):
    def contents() -> dict[Path, bytes]:
        files = (path for path in copied.rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in files if path.suffix != ".db-shm"}

    before = contents()
    assert len(ledgers_in(copied)) == 3
    for path in ledgers_in(copied):
        assert verify_ledger(path).finding is None
    assert {k: v for k, v in contents().items() if v or k in before} == before
