"""The commands in the how-to are run as they are written, but for the two that serve for ever."""

import re
import shlex
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli.app import start
from fedse.config.file import parse_config
from fedse.federation.folder import open_federation

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-federation.md"
SERVE = {"fedse federation start --dir federation", "fedse site start --home north"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


def alike(text: str) -> str:
    """Without what differs from run to run: keys, and where the folders are."""
    same_key = re.sub(r"\b[0-9a-f]{4}(-[0-9a-f]{4}){7}\b", "KEY", text)
    return same_key.replace(str(Path.cwd()), "/home/you")


def test_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    experiment, _ = blocks("toml")
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
    printed = alike(capsys.readouterr().out).splitlines()
    shown = [line for block in blocks("text") for line in alike(block).splitlines()]
    assert len(shown) > 15
    assert [line for line in shown if line not in (*printed, "...")] == []
    states = {
        name: m.state for name, m in open_federation(Path("federation")).sites.members.items()
    }
    assert states == {"north": "revoked", "south": "invited"}


def test_the_federation_without_an_end_is_an_experiment():
    experiment, without_end = blocks("toml")
    clients = experiment[experiment.index("[[clients]]") :]
    config = parse_config(without_end + clients, "the guide")
    assert config.run.open
    assert config.schedule.news == 2
