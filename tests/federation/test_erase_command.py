"""`fedse privacy forget` and `encrypt`, as a person types them."""

import io
import json
import re
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from fedse.cli.app import build_app, start
from fedse.envs.base import make_env
from fedse.federation.home import agreed_config, join
from fedse.ledger.chain import FILE
from fedse.ledger.writing import read_ledger
from fedse.method.rollout import Game, demonstrate
from fedse.store.buffer import Buffer
from tests.docs.test_reference import can_be_typed
from tests.federation.scene import BUNDLE, Scene
from tests.needs import needs

needs("flwr")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "erase-and-encrypt.md"


def make_desk():
    return make_env("desk", {})


@pytest.fixture
def home(scene: Scene) -> Path:
    """A site with six customers' letters, stored before subjects were on record."""
    offered = scene.read()
    agreed = agreed_config(offered, env="desk", options={}, base=None)
    path = join(offered, agreed, scene.folder / "home", bundle=BUNDLE).path
    env = make_desk()
    first = {env.subject(task): task for task in reversed(env.tasks("train"))}
    letters = [Game(task, 0) for task in list(first.values())[-6:]]
    games = demonstrate(letters, make_desk)
    with closing(Buffer(path / "buffer.db")) as buffer:
        buffer.add(games, experiment="clinics")
        buffer.record_played(games, experiment="clinics", bodies=True)
    return path


@pytest.fixture
def customer() -> str:
    env = make_desk()
    return env.subject(env.tasks("train")[0])


def site(*words: str, home: Path) -> int:
    return start(["privacy", *words, "--home", str(home)])


def said(home: Path) -> bytes:
    return b"".join(file.read_bytes() for file in home.glob("buffer.db*"))


def test_a_customer_is_forgotten(home: Path, customer: str, capsys: pytest.CaptureFixture[str]):
    assert site("forget", "--dry-run", "--json", customer, home=home) == 0
    counted = json.loads(capsys.readouterr().out)
    assert (counted["lessons"], counted["games"], counted["marks"]) == (1, 1, [])
    assert customer.encode() in said(home)
    assert site("forget", customer, "--json", home=home) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["marks"]) == 1
    assert customer.encode() not in said(home)
    assert customer.encode() not in read_ledger(home / FILE)
    assert site("forget", customer, home=home) == 0
    assert "already forgotten here" in capsys.readouterr().out
    assert start(["ledger", "verify", str(home)]) == 0
    assert "1 erasure" in capsys.readouterr().out


def test_a_name_can_come_from_a_pipe(
    home: Path, customer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{customer}\n"))
    assert site("forget", "-", "--json", home=home) == 0
    assert json.loads(capsys.readouterr().out)["lessons"] == 1
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert site("forget", "-", home=home) != 0


def test_an_export_of_earlier_is_named(
    home: Path, customer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    needs("pyarrow")
    out = tmp_path / "won.parquet"
    assert start(["export", "trajectories", str(home), "--to", "parquet", "--out", str(out)]) == 0
    assert site("forget", customer, home=home) == 0
    assert f"EXPORT   {out}" in capsys.readouterr().out


def test_an_environment_that_names_nobody_is_told_how(
    scene: Scene, capsys: pytest.CaptureFixture[str]
):
    path = scene.join().path
    assert site("forget", "Ada", home=path) != 0
    assert "subject(task)" in capsys.readouterr().err


def test_a_buffer_is_encrypted_its_key_replaced_and_every_command_still_works(
    home: Path, customer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert site("encrypt", home=home) != 0
    assert "--key FILE" in capsys.readouterr().err
    key = tmp_path / "keys" / "site.key"
    assert site("encrypt", "--key", str(key), home=home) == 0
    assert tomllib.loads((home / "site.toml").read_text())["storage"]["key"] == str(key)
    first = key.read_text()
    assert site("encrypt", home=home) == 0
    assert site("encrypt", "--rotate", home=home) == 0
    assert key.read_text() != first
    assert customer.encode() not in said(home)
    assert site("redact", "--dry-run", "--json", home=home) == 0
    assert start(["view", str(home)]) == 0
    assert start(["gc", str(home)]) == 0
    assert site("forget", customer, "--json", home=home) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["lessons"] == 1
    assert site("encrypt", "--key", "env:KEY", home=home) != 0


def test_without_its_key_a_buffer_is_not_read(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    key = tmp_path / "site.key"
    assert site("encrypt", "--key", str(key), home=home) == 0
    key.rename(tmp_path / "away")
    for words in (["view", str(home)], ["gc", str(home)]):
        assert start(words) != 0
        assert "no key file" in capsys.readouterr().err
    key.write_text("0" * 64)
    key.chmod(0o600)
    assert start(["view", str(home)]) != 0
    assert "is encrypted with key" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--dry-run", "--retrain"], ["--from-newest"]])
def test_options_that_contradict_each_other_change_nothing(
    home: Path, customer: str, wrong: list[str]
):
    before = said(home)
    assert site("forget", customer, *wrong, home=home) == 2
    assert said(home) == before


@pytest.mark.slow
def test_an_adapter_is_made_from_what_is_left(
    home: Path, customer: str, capsys: pytest.CaptureFixture[str]
):
    needs("transformers", "peft")
    assert site("forget", customer, home=home) == 0
    capsys.readouterr()
    assert site("forget", customer, "--retrain", "--json", home=home) == 0
    made = json.loads(capsys.readouterr().out)["retrained"]
    assert (made["clean"], made["start"], made["lessons"]) == (True, 0, 5)
    assert (home / "own-adapters" / "retrained" / "round-000").is_dir()


def test_the_guide():
    """Its commands can be typed."""
    app = build_app()
    lines = "".join(
        re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    ).splitlines()
    assert len(lines) >= 6
    assert all(can_be_typed(app, line) for line in lines if not line.startswith("#"))
