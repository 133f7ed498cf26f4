"""The commands in the how-to are run as they are written, but for the two that serve for ever."""

import re
import shlex
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli.app import start
from fedse.federation.folder import open_federation

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-federation.md"
SERVE = {"fedse federation start --dir federation", "fedse site start --home north"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (experiment,) = blocks("toml")
    Path("clinics.toml").write_text(experiment)
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    assert set(lines) >= SERVE
    for line in lines:
        if line in SERVE:
            assert start([*shlex.split(line)[1:], "--help"]) == 0
            continue
        if "FINGERPRINT" in line:
            line = line.replace("FINGERPRINT", open_federation(Path("federation")).card.fingerprint)
        assert start(shlex.split(line)[1:]) == 0, line
    states = {
        name: m.state for name, m in open_federation(Path("federation")).sites.members.items()
    }
    assert states == {"north": "revoked", "south": "invited"}
