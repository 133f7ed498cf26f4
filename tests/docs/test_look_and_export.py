"""Every command and every line of Python in the guide works as it is written."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fedse.cli.app import start
from tests.exports.toy_run import make_run
from tests.needs import needs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "look-and-export.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)


def test_the_guide_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    needs("pyarrow", "inspect_ai")
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedse").symlink_to(ROOT / "fedse")
    make_run(tmp_path / "runs", names=("maze-a", "maze-b"))
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(lines) == 10
    for line in lines:
        program, *argv = shlex.split(line, comments=True)
        assert program == "fedse"
        # A whole run takes too long here; its settings and its options are still read.
        assert start([*argv, *(["--dry-run"] if argv[0] == "run" else [])]) == 0, line
    for block in blocks("python"):
        subprocess.run([sys.executable, "-c", block], check=True, cwd=tmp_path)
