"""The files that tell others how to cite, report and contribute agree with the code."""

import re
import tomllib
from pathlib import Path

import pytest

from fedse._version import __version__
from fedse.store.buffer_schema import SCHEMA_VERSION as BUFFER_SCHEMA
from fedse.store.run_folder import SCHEMA_VERSION as RUN_SCHEMA
from tests.needs import needs

needs("yaml")

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPES = re.findall(r"^(\w+)[\w ]*:", (ROOT / "justfile").read_text(), flags=re.M)


def test_the_citation_names_this_version_and_licence():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == __version__
    assert cited["license"] == PROJECT["license"]
    assert cited["abstract"] == f"{PROJECT['description']}."
    assert [one["value"] for one in cited["identifiers"]] == ["arXiv:2512.08870"]


def test_the_hooks_use_what_is_installed():
    """No hook is downloaded, and each runs what the linters of `just lint` and the tests run."""
    (group,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert group["repo"] == "local"
    assert {hook["language"] for hook in group["hooks"]} == {"system"}
    entries = [hook["entry"] for hook in group["hooks"]]
    lint = (ROOT / "justfile").read_text().partition("lint:\n")[2].partition("\n\n")[0]
    assert [line.strip().removesuffix(" .") for line in lint.splitlines()] == entries[:3]
    assert entries[3:] == [".venv/bin/python -m scripts.make_reference --check"]


@pytest.mark.parametrize("name", ["AGENTS.md", "CONTRIBUTING.md", "docs/explanation/releases.md"])
def test_recipes_that_are_named_exist(name: str):
    text = (ROOT / name).read_text()
    inside = re.findall(r"`just (\w+)`|^just (\w+)", text, flags=re.M)
    assert {a or b for a, b in inside} <= set(RECIPES)
    assert inside or name.startswith("docs")


def test_the_schemas_are_those_of_the_code():
    told = (ROOT / "docs" / "explanation" / "releases.md").read_text()
    assert f"carry a number, {RUN_SCHEMA} and {BUFFER_SCHEMA} today." in told


def test_reports_ask_for_the_doctor():
    for template in ("bug", "feature"):
        path = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{template}.md"
        head = yaml.safe_load(path.read_text().split("---\n")[1])
        assert {"name", "about", "labels"} == set(head)
        assert "`fedse doctor`" in path.read_text()


def test_pythons_that_are_claimed_were_tried():
    """A classifier for a Python needs a yes in the table of what was tested, and the reverse."""
    page = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
    tried = re.findall(r"^\| Python (3\.\d+) \| yes", page, flags=re.M)
    claimed = re.findall(r":: Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert claimed == tried
    assert PROJECT["requires-python"] == f">={tried[0]}"
