"""`fedse ledger` as a person and as a program meet it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.needs import needs

needs("cryptography")

from fedse.cli.app import start
from fedse.config.judging import EvalSection
from fedse.config.schema import ClientSection, Config, RolloutSection
from fedse.config.schema import RunSection as RunSection
from fedse.drivers.run import run_local
from fedse.ledger import keys
from fedse.ledger.chain import FILE, examine
from fedse.ledger.keys import PUBLIC, new_signer
from fedse.ledger.writing import Ledger
from fedse.method.site import Site
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from tests.run_folders import write_card

NOON = datetime(2026, 3, 4, 12, 0, 5, tzinfo=UTC).timestamp()
COIN = "fedse.testing:CoinWorld"
CONFIG = Config(
    run=RunSection(name="toy", rounds=2),
    rollout=RolloutSection(episodes=6, batch=4),
    eval=EvalSection(episodes=4),
    clients=tuple(
        ClientSection(name=n, env=e) for n, e in (("a", COIN), ("b", COIN), ("c", "no:Env"))
    ),
)


def noon() -> float:
    return NOON


def open_site(cfg: Config, client: str, home: Path, *, clock: Callable[[], float]) -> Site:
    return replace(open_toy_site(cfg, client, home, clock=clock), home=home)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "run"
    run = Run(path, CONFIG, toy_spec(), clock=noon)
    run_local(run, clock=noon, open_site=open_site)
    run.close()
    write_card(path, CONFIG)
    return path


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path))
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*argv: object) -> tuple[int, str, str]:
        code = start(["ledger", *map(str, argv)])
        return code, *capsys.readouterr()

    return call


Said = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("verb", ["verify", "show"])
def test_there_is_help_with_an_example(verb: str, said: Said):
    code, out, _ = said(verb, "--help")
    assert (code, f"Example: fedse ledger {verb} last" in out) == (0, True)


def test_a_sound_run_is_verified_with_its_clients(run: Path, said: Said):
    code, out, err = said("verify", "last")
    assert (code, err) == (0, "")
    head = examine((run / FILE).read_bytes()).entries[-1].hash
    assert out.startswith("server run: 5 lines, 2 rounds\n  key   ")
    assert "  end   nothing in state.db is missing here\n" in out
    assert f"  head  {head}\n" in out
    assert "client a: 4 lines, 3 answers" in out
    assert "client b: 4 lines, 3 answers" in out


def test_a_changed_line_is_named_with_the_reason(run: Path, said: Said):
    data = (run / FILE).read_bytes()
    (run / FILE).write_bytes(data.replace(b'"voters":["a","b"]', b'"voters":["a","x"]', 1))
    code, out, err = said("verify", run)
    assert code == 7
    assert "line 3 was changed: its hash is not that of its content" in out
    assert err.startswith(f"error: ledger {run / FILE}, line 3 was changed")


def test_a_client_that_is_not_sound_is_found_too(run: Path, said: Said):
    path = run / "clients" / "b" / FILE
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    code, _, err = said("verify", run)
    assert code == 7
    assert f"ledger {path}, line 4 is missing, the answer of round 3" in err


def test_a_file_alone_is_verified_as_far_as_that_goes(run: Path, tmp_path: Path, said: Said):
    alone = Path(shutil.copy(run / FILE, tmp_path / "theirs.jsonl"))
    code, out, _ = said("verify", alone)
    assert code == 0
    assert "the end cannot be verified here: compare the head" in out


def test_the_key_of_the_owner_is_asked_for(run: Path, tmp_path: Path, said: Said):
    assert said("verify", run, "--key", run / PUBLIC)[0] == 0
    other = tmp_path / "other"
    other.mkdir()
    new_signer(other)
    code, _, err = said("verify", run / FILE, "--key", other / PUBLIC)
    assert code == 7
    assert "line 1 names key" in err
    assert "the trusted key is" in err


def test_a_key_for_several_owners_is_refused(run: Path, said: Said):
    code, _, err = said("verify", run / "clients", "--key", run / PUBLIC)
    assert code == 2
    assert "--key belongs to one owner" in err
    home = run / "clients" / "a"
    assert said("verify", home, "--key", home / PUBLIC)[0] == 0


@pytest.mark.parametrize("content", ["", "ssh-ed25519 AAAA x", "-----BEGIN PUBLIC KEY-----"])
def test_a_file_that_is_no_key_is_named(run: Path, tmp_path: Path, said: Said, content: str):
    (tmp_path / "no.pub").write_text(content)
    code, _, err = said("verify", run, "--key", tmp_path / "no.pub")
    assert code == 2
    assert f"public key {tmp_path / 'no.pub'}" in err


def test_programs_get_json(run: Path, said: Said):
    code, out, _ = said("verify", run, "--json")
    server, *clients = json.loads(out)
    assert code == 0
    assert (server["role"], server["rounds"], server["sound"], server["signed"]) == (
        ("server", 2, True, True)
    )
    assert [client["answers"] for client in clients] == [3, 3]
    (run / FILE).write_bytes((run / FILE).read_bytes()[:-1])
    code, out, _ = said("verify", run, "--json")
    assert code == 7
    assert json.loads(out)[0]["finding"]["line"] == 5


def test_an_unsigned_ledger_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said):
    monkeypatch.setattr(keys, "signing_works", lambda: False)
    ledger = Ledger(tmp_path, role="server", name="x", clock=noon)
    code, out, _ = said("verify", ledger.path)
    assert code == 0
    assert "unsigned" in out


def test_the_rounds_are_shown(run: Path, said: Said):
    code, out, _ = said("show", run)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "server run"
    assert lines[1].split("  ")[0] == "round"
    adapter = Run(run, CONFIG, toy_spec(), clock=noon).adapter(1).digest[:12]
    assert lines[2].split() == (f"1 2026-03-04 12:00:05 2 0 1 0 0.00 MB 0.00 MB {adapter}".split())
    assert any(line.startswith("round 1 without c: ") for line in lines)
    assert "client a" in lines
    assert sum(line.split()[3:4] == ["answered"] for line in lines) == 6


def test_what_another_party_wrote_cannot_steer_the_terminal(run: Path, said: Said):
    entries = examine((run / FILE).read_bytes()).entries
    (run / FILE).unlink()
    (run / "state.db").unlink()
    ledger = Ledger(run, role="server", name="\x1b]0;owned\x07", clock=lambda: 1e300)
    nasty = [{"client": "c\x1b[2J", "kind": "rejected", "reason": "\u202etxt\rover"}]
    ledger.append("round", {**entries[2].facts, "excluded": nasty})
    for verb in ("verify", "show"):
        code, out, err = said(verb, run / FILE)
        assert code == 0
        assert not set("\x1b\x07\r\u202e") & set(out + err)
    assert "c\\x1b[2J" in said("show", run / FILE)[1]


def test_a_line_of_a_known_kind_with_other_facts_is_found(run: Path, said: Said):
    Ledger(run, role="server", name="run", clock=noon).append("round", {"round": 3})
    for verb in ("verify", "show"):
        code, _, err = said(verb, run)
        assert code == 7
        assert "line 6 is not a line of kind round: see before" in err


def test_where_there_is_no_ledger_the_next_step_is_told(run: Path, tmp_path: Path, said: Said):
    for path in run.rglob(FILE):
        path.unlink()
    code, _, err = said("verify", run)
    assert code == 7
    assert "has no ledger" in err
    assert "hint: the next round started there writes one" in err
    code, _, err = said("verify", tmp_path / "nowhere")
    assert code == 7
    assert "there is no run" in err
