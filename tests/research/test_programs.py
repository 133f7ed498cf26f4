"""The page of research/ names every program there, and none that is gone."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "research" / "README.md").read_text()


def test_the_page_names_every_program_and_no_other():
    there = {path.stem for path in (ROOT / "research").iterdir() if path.suffix in (".py", ".sh")}
    named = {*re.findall(r"research[./](\w+)\b(?!\.toml)", PAGE), *re.findall(r"`(\w+)\.py`", PAGE)}
    assert named == there


def test_the_package_and_its_tests_do_without_them():
    own = ROOT / "tests" / "research"
    importing = [
        path
        for folder in ("fedse", "scripts", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if own not in path.parents
        and re.search(r"^\s*(from|import) research\b", path.read_text(), re.M)
    ]
    assert importing == []
