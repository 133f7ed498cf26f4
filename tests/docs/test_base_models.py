"""What docs/how-to/base-models.md says: its commands run; those that would fetch can be typed."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.needs import needs

needs("torch", "transformers")

from fedse.adapters.base import FETCHED, SHIPPED
from fedse.cli.app import build_app, start
from fedse.config.file import parse_config
from tests.docs.test_reference import can_be_typed

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "base-models.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FEDSE_MODELS", str(tmp_path))
    for name in FETCHED:
        shutil.copytree(SHIPPED["tiny"], tmp_path / name)
    app, lines = build_app(), "".join(blocks("bash")).splitlines()
    assert len(lines) == 6
    for line in lines:
        assert can_be_typed(app, line), line
        if not line.startswith("fedse model get "):
            assert start(shlex.split(line)[1:]) == 0, line


def test_the_settings_can_be_read():
    (block,) = blocks("toml")
    clients = '[[clients]]\nname = "a"\nenv = "maze"\n'
    assert parse_config(block + clients, "the page").model.base in FETCHED


def test_every_name_is_told_of():
    assert [name for name in (*SHIPPED, *FETCHED) if f"`{name}`" not in PAGE] == []
