"""The guide on personal adapters: its TOML blocks are parts of experiments, its command exists."""

import re
from pathlib import Path

import pytest

from fedse.config.file import parse_config
from fedse.config.keys import children

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/how-to/personal-adapters.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", GUIDE, flags=re.S)
CLIENT = '\n[[clients]]\nname = "a"\nenv = "maze"\n'


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_is_an_experiment_or_part_of_one(block: str):
    parse_config(block if "[[clients]]" in block else block + CLIENT, "guide")


@pytest.mark.parametrize(
    "setting",
    ["personal.steps", "personal.every", "gate.liars"],
)
def test_the_settings_it_names_exist(setting: str):
    section, _, name = setting.partition(".")
    assert name in children(section)
    assert name in GUIDE
