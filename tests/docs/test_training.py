"""The guide on training: its TOML blocks are parts of an experiment, all choices are told."""

import re
import tomllib
from pathlib import Path

import pytest

from fedse.config.file import parse_config
from fedse.config.keys import children, config_keys

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/how-to/training.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", GUIDE, flags=re.S)
CLIENT = '\n[[clients]]\nname = "a"\nenv = "maze"\n'


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_can_be_put_into_an_experiment(block: str):
    parse_config(block + CLIENT, "guide")


def test_the_guide_sets_what_all_members_agree_on():
    named = {name for block in BLOCKS for name in tomllib.loads(block)}
    assert named == {"train", "warmstart"}


@pytest.mark.parametrize("setting", ["steps", "schedule", "optimizer", "batches"])
def test_every_choice_is_explained(setting: str):
    assert setting in children("train")
    assert f"`{setting}" in GUIDE
    for choice in config_keys()[f"train.{setting}"].choices:
        assert f'"{choice}"' in GUIDE
