"""The Python on docs/how-to/script-experiments.md runs from top to bottom."""

import re
import tomllib
from pathlib import Path

import pytest

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
