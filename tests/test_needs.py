"""No law vanishes unseen: what CI has to have is installed by it, and nothing else is skipped."""

import ast
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

from tests import needs as needed
from tests.needs import OPTIONAL, PACKAGES, PROGRAMS, lacking, needs

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def extras_of(name: str) -> set[str]:
    """The extra and all that it brings."""
    inner = [part for line in EXTRAS[name] for part in re.findall(r"fed-se\[(.+)\]", line)]
    return {name, *(found for part in inner for one in part.split(",") for found in extras_of(one))}


def test_every_package_that_a_test_needs_is_installed_by_ci():
    line = next(x for x in (ROOT / ".ci" / "run").read_text().splitlines() if " -e " in x)
    (named,) = re.findall(r'-e "\.\[([\w,]+)\]"', line)
    installed = {extra for one in named.split(",") for extra in extras_of(one)}
    assert " -r plugins/editable.txt" in line
    lines = (ROOT / "plugins" / "editable.txt").read_text().splitlines()
    beside = {x.removeprefix("-e plugins/") for x in lines if x.startswith("-e ")}
    folders = {path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml")}
    assert {one.partition("[")[0] for one in beside} == folders
    installed |= beside
    # The extra of simulation brings all that the one of flower does.
    assert {*PACKAGES.values()} - {"flower"} <= installed
    assert "simulation" in installed
    assert EXTRAS["flower"][1:] == EXTRAS["simulation"][1:]


def test_every_program_that_a_test_needs_is_installed_by_ci():
    (line,) = re.findall(r"apt-get install (.+)", (ROOT / ".ci" / "run").read_text())
    assert set(PROGRAMS.values()) <= set(line.split())


def test_what_is_lacking_fails_in_ci_and_is_skipped_elsewhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(needed, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(Skipped, match=r"flwr is not installed: pip install 'fed-se\[simulation\]'"):
        needs("flwr")
    with pytest.raises(Skipped, match="nginx is not installed: apt-get install nginx-light"):
        needs("nginx")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(Failed, match="flwr is not installed"):
        needs("flwr")
    with pytest.raises(Failed, match="this machine cannot"):
        lacking("this machine cannot")


def test_nothing_else_is_skipped():
    """Only the helper knows the words, so that the list of what may be skipped is complete."""
    words = {"skip", "skipif", "importorskip", "xfail", "skipTest"}
    users = {
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in words
        if ast.unparse(node.value) in ("pytest", "pytest.mark", "unittest", "self")
    }
    assert users == {"tests/needs.py"}


def test_what_is_optional_is_few_and_says_why():
    assert len(OPTIONAL) == 12
    assert all(reason for _, reason in OPTIONAL.values())
