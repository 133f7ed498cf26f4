"""The Python on docs/how-to/script-experiments.md runs from top to bottom."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from fedse.cli.app import start
from tests.needs import needs

needs("peft")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "script-experiments.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_pages_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path))
    code = [text for kind, text in BLOCKS if kind == "python"]
    assert len(code) == 5
    exec(compile("\n".join(code), str(PAGE), "exec"), {})
    told = capsys.readouterr().out
    assert "round 2: 5 voted" in told
    assert "True\n" in told


def test_the_pages_entry_points_name_the_groups_there_are():
    from fedse import plugins

    (text,) = [text for kind, text in BLOCKS if kind == "toml"]
    groups = tomllib.loads(text)["project"]["entry-points"]
    assert set(groups) == {plugins.ENVS, plugins.AGGREGATES, plugins.LOSSES, plugins.SELECTS}


def test_the_pages_sweep_can_be_done_here(capsys: pytest.CaptureFixture[str]):
    """Two values and two methods, of which one has the five sites work alone; five seeds."""
    (line,) = [text for kind, text in BLOCKS if kind == "bash"]
    assert start([*shlex.split(line)[1:], "--dry-run"]) == 0
    told = capsys.readouterr().out.splitlines()
    # A site that works alone has nothing to merge, so its step is always 1.
    experiments = 5 * (2 * 1 + 5)
    assert told[0] == (
        f"dry run: {experiments} experiments, {6 * experiments} rounds in all; nothing was started"
    )
    assert told[1:] == [
        f"  {name}  method={method}, aggregate.step={step}"
        for name, method, step in [
            ("A", "fed-se", "1"),
            ("B", "fed-se", "1.5"),
            ("C", "local-evolve", "1"),
            ("D", "local-evolve", "1.5"),
        ]
    ]
