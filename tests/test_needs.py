"""No law vanishes unseen: what CI has to have is installed by it, and nothing else is skipped."""

import ast
import re
import shutil
import tomllib
from functools import cache
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
    line = next(x for x in (ROOT / ".ci" / "install").read_text().splitlines() if " -e " in x)
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
    pairs = re.findall(r"\b([\w-]+):([\w-]+)\b", (ROOT / ".ci" / "run").read_text())
    assert dict(pairs) == PROGRAMS


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
    monkeypatch.setattr(needed, "may_mount", lambda: False)
    with pytest.raises(Failed, match="only root may mount a small disk"):
        needs("tmpfs")
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
    assert len(OPTIONAL) == 11
    assert all(reason for _, reason in OPTIONAL.values())


def test_a_mark_stands_in_the_file_that_it_marks():
    """.ci/run finds the files of a mark by their text."""
    marks = ("pytest.mark.slow", "pytest.mark.federated", "pytest.mark.long")
    for path in (*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")):
        text = path.read_text()
        if not path.name.startswith("test_") and path != Path(__file__):
            assert not any(mark in text for mark in marks), path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Assign) and any(m in ast.unparse(node.value) for m in marks):
                names = {ast.unparse(target) for target in node.targets}
                assert names == {"pytestmark"} or not names & imported_anywhere(), path


@cache
def imported_anywhere() -> set[str]:
    """The names that one file of the tests takes from another."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {a.name for n in nodes if (n.module or "").startswith("tests") for a in n.names}
