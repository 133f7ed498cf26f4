"""Pages without a test of their own: their commands run, or can at least be typed."""

import re
import shlex
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli.app import build_app, start
from scripts.make_reference import page
from tests.docs.test_reference import can_be_typed
from tests.exports.toy_run import make_run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TROUBLE = DOCS / "how-to" / "troubleshooting.md"
INDEX = DOCS / "index.md"
TOO_LONG = {"fedse demo"}
"""A minute or more; tests/system has a test of it."""


def lines(page: Path) -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(), flags=re.M | re.S)
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.startswith("fedse ")]


@pytest.mark.parametrize("page", [INDEX, TROUBLE], ids=lambda page: page.stem)
def test_the_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedse").symlink_to(ROOT / "fedse")
    make_run(tmp_path / "runs", names=("maze-a", "maze-b"))
    assert start(["federation", "create", "fedse/demo.toml", "--host", "localhost"]) == 0
    assert len(lines(page)) >= 3
    for line in lines(page):
        if line not in TOO_LONG:
            assert start(shlex.split(line)[1:]) == 0, line


def test_every_exit_code_has_its_section():
    codes = re.findall(r"^\| `(\d+)`", page("reference/exit-codes.md"), flags=re.M)
    told = re.findall(r"^## Exit code (\d+): ", TROUBLE.read_text(), flags=re.M)
    assert told == [code for code in codes if code != "0"]


def test_the_commands_of_the_readme_can_be_typed():
    """They take minutes, or need a folder that the line before makes."""
    app, typed = build_app(), lines(ROOT / "README.md")
    assert len(typed) >= 5
    assert [line for line in typed if not can_be_typed(app, line.partition(" && ")[0])] == []
