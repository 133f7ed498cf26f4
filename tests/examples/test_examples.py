"""Every example and every code block of the guide runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedse.config.file import load_config
from fedse.envs.desk.shops import SHOPS
from tests.needs import needs

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "how-to" / "bring-your-environment.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_own_gymnasium():
    needs("gymnasium")
    assert "FAIL" not in run("examples/own_gymnasium.py")


def test_own_gymnasium_is_plugged_in_by_15_lines():
    text = (ROOT / "examples" / "own_gymnasium.py").read_text()
    plugged = text.partition("MOVES =")[2].partition("if __name__")[0]
    assert len([line for line in plugged.splitlines() if line.strip()]) <= 15


def test_customer_service():
    needs("mcp")
    assert run("examples/customer_service/support.py").endswith("Finished.\nsuccess\n")


def test_the_guides_python_runs(tmp_path: Path):
    needs("gymnasium")
    code = [text for kind, text in BLOCKS if kind == "python"]
    assert code
    (tmp_path / "guide.py").write_text("\n".join(code))
    run("guide.py", cwd=tmp_path)


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "toml"])
def test_the_guides_settings_are_valid(text: str, tmp_path: Path):
    (tmp_path / "guide.toml").write_text(text)
    assert load_config(tmp_path / "guide.toml").clients


def test_desk():
    told = run("examples/desk.py")
    assert told.count("success\n") == len(SHOPS)
    assert '> {"tool": "rule", "case": "late"}' in told
