"""Every experiment file in the repository is valid."""

from pathlib import Path

import pytest

from fedse.config.file import load_config

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("configs/*.toml"), *ROOT.glob("fedse/*.toml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_parses(path: Path):
    assert load_config(path).clients


def test_the_papers_settings_are_the_papers():
    config = load_config(ROOT / "configs" / "paper.toml")
    assert (config.model.rank, config.model.alpha, config.model.targets) == (8, 16, ("all-linear",))
    assert (config.train.lr, config.train.epochs, config.run.rounds) == (5e-5, 2, 20)
    assert (config.rollout.temperature, config.rollout.context) == (1.0, 4096)
    assert config.aggregate.clip == "none"
