"""Every experiment file in the repository is valid."""

import re
from pathlib import Path

import pytest

from fedse.config.file import load_config
from fedse.config.shipped import SHIPPED

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("configs/*.toml"), *ROOT.glob("fedse/**/*.toml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_parses(path: Path):
    assert load_config(path).clients


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_experiment_is_found_by_name_from_any_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert load_config(Path(name)).clients


def test_only_a_measurement_names_an_experiment_that_a_package_lacks():
    """A guide's commands work without a checkout; those on speed are on record as measured."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/*/*.md")]
    guides = [page for page in pages if page.parent.name not in ("adr", "reference")]
    named = {page.stem for page in guides if typed(page)}
    assert named == {"speed"}


def typed(page: Path) -> list[str]:
    """Commands in blocks of the page that name a file of the repository's configs."""
    return re.findall(r"^(?:fedse|python) .*\bconfigs/\S+", page.read_text(), flags=re.MULTILINE)


def test_the_papers_settings_are_the_papers():
    config = load_config(Path("paper"))
    assert (config.model.rank, config.model.alpha, config.model.targets) == (8, 16, ("all-linear",))
    assert (config.train.lr, config.train.epochs, config.run.rounds) == (5e-5, 2, 20)
    assert (config.rollout.temperature, config.rollout.context) == (1.0, 4096)
    assert config.aggregate.clip == "none"
