"""A backup that is taken at any moment of a run is that moment, and the run goes on from it."""

import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.needs import needs

needs("age", "cryptography")

from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.errors import MachineError, StoreError
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.store.backup import back_up, restore
from fedse.store.buffer import Buffer
from fedse.store.kept_copy import kept_copies
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from tests.store.older import made_older

SECRET = "planted-7c1e"
CONFIG = Config.model_validate(
    {
        "run": {"name": "toy", "rounds": 3},
        "rollout": {"episodes": 2},
        "eval": {"episodes": 1},
        "storage": {"rounds": 2, "answers": 2},
        "clients": [
            {"name": n, "env": "fedse.testing:CoinWorld", "options": {"secret": SECRET}}
            for n in "ab"
        ],
    }
)
EVENTS = (
    "rollout.started",
    "train.started",
    "answer.received",
    "aggregate.started",
    "commit.started",
    "round.committed",
)


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A public key, and the file of its secret."""
    file = tmp_path_factory.mktemp("age") / "backup.key"
    said = subprocess.run(["age-keygen", "-o", str(file)], check=True, capture_output=True)
    return said.stderr.decode().split()[-1], file


def finish(folder: Path, observers: Iterator[object] = ()) -> list[str]:
    """Digests of all rounds, which are committed."""
    run = Run(folder, CONFIG, toy_spec(), clock=lambda: 0.0, observers=[*observers])
    with closing(run):
        run_local(run, open_site=open_toy_site)
        return [run.digest(index) for index in range(4)]


@pytest.mark.parametrize("event", EVENTS)
def test_a_run_goes_on_from_a_backup_of_any_moment(
    tmp_path: Path, key: tuple[str, Path], event: str
):
    taken, whole = tmp_path / "backup.age", tmp_path / "whole"

    def look(name: str, facts: dict[str, object]) -> None:
        if name == event and facts["round"] == 2:
            back_up(whole, taken, recipient=key[0])

    expected = finish(whole, [look])
    restore(taken, tmp_path / "again", identity=key[1])
    assert finish(tmp_path / "again") == expected
    ledgers = ledgers_in(tmp_path / "again")
    assert len(ledgers) == 3
    assert not any(verify_ledger(path).finding for path in ledgers)
    assert SECRET.encode() not in taken.read_bytes()
    assert stat.S_IMODE(taken.stat().st_mode) == 0o600


def test_nobody_else_can_read_it(tmp_path: Path, key: tuple[str, Path]):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "node.key").write_text("secret")
    (tmp_path / "home" / "node.key").chmod(0o600)
    back_up(tmp_path / "home", tmp_path / "it.age", recipient=key[0])
    other = tmp_path / "other.key"
    subprocess.run(["age-keygen", "-o", str(other)], check=True, capture_output=True)
    with pytest.raises(StoreError, match="no identity matched"):
        restore(tmp_path / "it.age", tmp_path / "back", identity=other)
    assert not (tmp_path / "back").exists()
    restore(tmp_path / "it.age", tmp_path / "back", identity=key[1])
    assert (tmp_path / "back" / "node.key").read_text() == "secret"
    assert stat.S_IMODE((tmp_path / "back" / "node.key").stat().st_mode) == 0o600
    with pytest.raises(StoreError, match="is already there"):
        restore(tmp_path / "it.age", tmp_path / "back", identity=key[1])


def test_what_is_wrong_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "big").write_bytes(b"x" * (1 << 20))
    with pytest.raises(StoreError, match="malformed recipient") as wrong:
        back_up(tmp_path / "home", tmp_path / "it.age", recipient="age1nobody")
    assert "age-keygen" in wrong.value.hint
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="age is not installed"):
        back_up(tmp_path / "home", tmp_path / "it.age", recipient="age1nobody")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_copy_from_before_an_upgrade_is_backed_up_and_back(tmp_path: Path, key: tuple[str, Path]):
    home = tmp_path / "home"
    home.mkdir()
    Buffer(home / "buffer.db").close()
    made_older(home / "buffer.db", 4)
    Buffer(home / "buffer.db").close()
    back_up(home, tmp_path / "backup.age", recipient=key[0])
    restore(tmp_path / "backup.age", tmp_path / "again", identity=key[1])
    (copy,) = kept_copies(tmp_path / "again" / "buffer.db")
    assert copy.read_bytes() == (home / copy.name).read_bytes()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
