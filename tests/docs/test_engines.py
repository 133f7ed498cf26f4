"""The guide on engines: every TOML block is a valid part of an experiment, every command exists."""

import re
import tomllib
from pathlib import Path

import pytest

from fedse.config.file import experiment_text, load_config, parse_config
from fedse.config.keys import explain

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/how-to/engines.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", GUIDE, flags=re.S)
CLIENT = '\n[[clients]]\nname = "a"\nenv = "maze"\n'


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_can_be_put_into_an_experiment(block: str):
    parse_config(block + CLIENT, "guide")


def test_hardware_is_all_the_guide_sets():
    assert {name for block in BLOCKS for name in tomllib.loads(block)} == {"engine", "trainer"}


@pytest.mark.parametrize("section", ["engine", "trainer"])
def test_the_explained_sections_say_whose_they_are(section: str):
    assert f"[{section}]" in explain(section)


@pytest.mark.parametrize("name", ["qwen2.5-1.5b", "qwen2.5-7b"])
def test_recipes_are_marked_as_not_run(name: str):
    assert "NOT RUN BY US" in experiment_text(Path(name))
    assert load_config(Path(name)).engine.type == "vllm"
    assert f"`{name}`" in GUIDE
