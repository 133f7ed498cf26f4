"""`fedse privacy redact`: it counts without telling, and afterwards nothing is left."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from fedse.cli.app import build_app, start
from fedse.config.file import parse_config
from fedse.store.buffer import Buffer
from fedse.types import Task, Trajectory, Turn
from tests.docs.test_reference import can_be_typed
from tests.federation.scene import Scene
from tests.needs import needs

needs("flwr", "stdnum")

KEY = "AKIA" + "QZ3FX7LMWN2PVB5T"
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "redact.md").read_text()


@pytest.fixture
def home(scene: Scene) -> Path:
    """A site that stored a secret before it redacted."""
    path = scene.join().path
    turn = Turn(observation=f"the key is {KEY}", action=f"type {KEY}")
    played = Trajectory(
        task=Task(env="maze", id="1", split="train"), seed=0, turns=(turn,), outcome="success",
        reward=1.0, policy="x", round=1,
    )  # fmt: skip
    with closing(Buffer(path / "buffer.db")) as buffer:
        buffer.add([played], experiment="clinics")
        buffer.record_played([played], experiment="clinics", bodies=True)
    return path


def is_there(home: Path) -> bool:
    return any(KEY.encode() in file.read_bytes() for file in home.glob("buffer.db*"))


def test_a_dry_run_counts_and_changes_nothing(home: Path, capsys: pytest.CaptureFixture[str]):
    assert start(["privacy", "redact", "--dry-run", "--json", "--home", str(home)]) == 0
    said = capsys.readouterr().out
    assert json.loads(said) == {
        "looked_at": 1,
        "changed": 1,
        "kinds": {"SECRET": {"places": 2, "values": 1, "in": 1, "already": 0}},
    }
    assert start(["privacy", "redact", "--dry-run", "--home", str(home)]) == 0
    assert KEY not in said + capsys.readouterr().out
    assert start(["privacy", "redact", "--dry-run", "--show", "--home", str(home)]) == 0
    assert f"{KEY} -> [SECRET-" in capsys.readouterr().out
    assert is_there(home)


def test_a_text_of_the_owner_can_be_tried(home: Path, capsys: pytest.CaptureFixture[str]):
    (home / "note.txt").write_text("pay with 4111 1111 1111 1111")
    given = ["--text", str(home / "note.txt"), "--home", str(home), "--json"]
    assert start(["privacy", "redact", "--dry-run", *given]) == 0
    assert list(json.loads(capsys.readouterr().out)["kinds"]) == ["CARD"]
    assert start(["privacy", "redact", *given]) != 0


def test_what_was_stored_before_is_redacted(home: Path, capsys: pytest.CaptureFixture[str]):
    needs("transformers")
    assert is_there(home)
    assert start(["privacy", "redact", "--json", "--home", str(home)]) == 0
    assert json.loads(capsys.readouterr().out) == {"changed": 2}
    assert not is_there(home)
    assert start(["privacy", "redact", "--dry-run", "--json", "--home", str(home)]) == 0
    after = json.loads(capsys.readouterr().out)
    assert after["kinds"] == {"SECRET": {"places": 0, "values": 0, "in": 0, "already": 2}}


def test_a_site_that_asks_for_nothing_is_told(home: Path, capsys: pytest.CaptureFixture[str]):
    text = (home / "site.toml").read_text()
    (home / "site.toml").write_text(text.replace("secrets = true", "secrets = false"))
    assert start(["privacy", "redact", "--home", str(home)]) != 0
    assert "secrets = true" in capsys.readouterr().err
    assert is_there(home)


def test_the_guide():
    """Its commands can be typed and its settings can be read."""
    app = build_app()
    lines = "".join(re.findall(r"^```bash\n(.*?)^```", PAGE, flags=re.M | re.S)).splitlines()
    assert len(lines) == 2
    assert all(can_be_typed(app, line) for line in lines)
    settings, patterns = re.findall(r"^```toml\n(.*?)^```", PAGE, flags=re.M | re.S)
    clients = '[[clients]]\nname = "a"\nenv = "maze"\n'
    assert parse_config(settings + clients, "guide").redact.words == ("staff.txt",)
    assert "CASE = " in patterns
