"""What docs/how-to/deploy.md says: its commands name files, services, values, verbs that exist."""

import os
import re
import shlex
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from tests.needs import needs

needs("yaml", "flwr")

import yaml

from fedse.cli.app import start
from tests.deploy.rendered import DEPLOY, ROOT, compose
from tests.packaging.shipped import unknown_options

GUIDE = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
LINES = [
    shlex.split(line.partition(" > ")[0].partition(" < ")[0])
    for block in re.findall(r"```bash\n(.*?)```", GUIDE, flags=re.DOTALL)
    for line in block.splitlines()
]
SERVICES = {"coordinator", "site"}
PROGRAMS = {"docker", "podman", "helm", "kubectl", "export", "mkdir", "pip", "mmdebstrap"}


def verbs(words: list[str]) -> list[str]:
    """The words that fedse gets in a container; none if something else runs there."""
    if "fedse" in words:
        return words[words.index("fedse") + 1 :]
    if words[:3] == ["docker", "compose", "run"] and "--entrypoint" not in words:
        return words[next(i for i, word in enumerate(words) if word in SERVICES) + 1 :]
    return []


def test_no_other_programs_are_needed():
    assert {words[0] for words in LINES} == PROGRAMS


def test_the_verbs_exist(capsys: pytest.CaptureFixture[str]):
    run = [verbs(words) for words in LINES if verbs(words)]
    assert len(run) >= 12
    for words in run:
        assert unknown_options(words, capsys) == set(), words
        # Both folders are where the volume is.
        (place,) = re.findall(r"--(?:dir|out|home) (\S+)", " ".join(words))
        assert place in ("/data/federation", "/data/site")


def test_files_and_services_exist():
    named = re.findall(r"deploy/[\w./-]+", " ".join(word for words in LINES for word in words))
    assert len(named) > 10
    made = {"deploy/compose/environment", "deploy/compose/models"}
    assert [name for name in named if name not in made and not (ROOT / name).exists()] == []
    binds = {
        one["source"].partition(":-")[2].strip("}")
        for one in compose("site")["services"]["site"]["volumes"]
        if one["type"] == "bind"
    }
    assert {f"deploy/compose/{Path(one).name}" for one in binds} == made
    targets = {word for words in LINES for flag, word in pairwise(words) if flag == "--target"}
    assert targets == SERVICES


@pytest.mark.parametrize("side", sorted(SERVICES))
def test_values_exist(side: str):
    known = yaml.safe_load((DEPLOY / "charts" / f"fedse-{side}" / "values.yaml").read_text())
    given = [
        value.partition("=")[0]
        for words in LINES
        if f"deploy/charts/fedse-{side}" in words
        for flag, value in pairwise(words)
        if flag in ("--set", "--set-file")
    ]
    assert len(given) >= 4
    for name in given:
        at = known
        for part in name.split("."):
            assert part in at, name
            at = at[part]


def test_an_invitation_and_a_request_can_be_piped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """As `/dev/stdin` is: a file that can be read once and has no name of its own."""
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text('[run]\nname="a"\nrounds=1\n[[clients]]\nname="north"\nenv="maze"\n')
    assert start(["federation", "create", "a.toml", "--host", "localhost"]) == 0
    fingerprint = re.search(r"fingerprint +(\S+)", capsys.readouterr().out)[1]
    assert start(["federation", "invite", "north"]) == 0

    def piped(source: str, words: list[str]) -> int:
        os.mkfifo("pipe")
        content = Path(source).read_bytes()
        writer = threading.Thread(target=lambda: Path("pipe").write_bytes(content))
        writer.start()
        code = start([*words[:2], "pipe", *words[2:]])
        writer.join()
        Path("pipe").unlink()
        return code

    joins = ["site", "join", "--env", "maze", "--fingerprint", fingerprint]
    assert piped("federation/invites/north.invite.json", joins) == 0
    assert piped("site/enrolment.json", ["federation", "enrol"]) == 0
