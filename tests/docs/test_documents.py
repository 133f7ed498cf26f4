"""What the documents say about the code is true of the code."""

import ast
import re
from pathlib import Path

import pytest

from fedse.cli.app import VERBS
from fedse.config.keys import config_keys

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("research/*.md"),
        *ROOT.glob(".github/**/*.md"),
    ]
)
ADRS = sorted(ROOT.glob("docs/adr/[0-9]*.md"))


def names_in(path: Path) -> set[str]:
    """Functions and classes of a module, methods as Class.method."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (n.name for n in node.body if isinstance(n, ast.FunctionDef))
            found |= {f"{node.name}.{method}" for method in methods}
    return found


NAMED_FILE = re.compile(r"`((?:fedse|scripts|research|configs|docs|tests|examples)/[\w./-]+\.\w+)")


def links_in(page: Path) -> list[tuple[Path, str]]:
    """The files the page links to, each with the anchor or an empty text; no other host."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    split = (target.partition("#") for target in targets if "://" not in target)
    return [(page.parent / path if path else page, anchor) for path, _, anchor in split]


def anchors_in(page: Path) -> set[str]:
    """As both the site and code hosts name them, for headings of plain words."""
    without_code = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", without_code, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    for target, anchor in links_in(page):
        assert target.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors_in(target), f"{page.name}: {target}#{anchor}"
        if page.is_relative_to(ROOT / "docs"):
            inside = target.resolve().is_relative_to(ROOT / "docs")
            assert inside, f"{page.name} links to {target}, which the site does not have"


def test_the_index_leads_to_every_guide():
    docs = ROOT / "docs"
    linked = {target.resolve() for target, _ in links_in(docs / "index.md")}
    guides = {
        page
        for room in ("tutorials", "how-to", "explanation")
        for page in docs.glob(f"{room}/*.md")
    }
    assert guides - linked == set()


def test_there_are_links_of_every_kind():
    """Else the test above would look at nothing."""
    assert links_in(ROOT / "README.md")
    assert len([1 for page in PAGES for _, anchor in links_in(page) if anchor]) > 20
    assert "a-site-is-quarantined" in anchors_in(ROOT / "docs" / "how-to" / "operate.md")


def found_in(pattern: re.Pattern[str]) -> dict[Path, list[str]]:
    """What each page has of it; far from nothing, or the pattern would prove nothing."""
    found = {page: pattern.findall(page.read_text()) for page in PAGES}
    assert ROOT / "README.md" in found
    assert sum(map(len, found.values())) >= 20
    return found


def test_files_that_are_named_exist():
    found = [(page.name, name) for page, names in found_in(NAMED_FILE).items() for name in names]
    assert [named for named in found if not (ROOT / named[1]).exists()] == []


def test_the_paper_map_names_real_functions():
    text = (ROOT / "docs" / "paper-map.md").read_text()
    places = re.findall(r"`([\w/]+\.py):(\w+(?:\.\w+)?)`", text)
    assert len(places) >= 10
    for file, name in places:
        assert name in names_in(ROOT / "fedse" / file), f"{file} has no {name}"


def test_the_paper_map_names_real_settings():
    text = (ROOT / "docs" / "paper-map.md").read_text()
    keys = set(config_keys())
    sections = ["run", "model", "rollout", "select", "buffer", "train", "aggregate", "eval"]
    named = {f"{s}.{key}" for s, key in re.findall(rf"`({'|'.join(sections)})\.(\w+)`", text)}
    assert len(named) >= 10
    assert {name for name in named if not name.endswith(".py")} - keys == set()


def test_the_readme_is_short_and_names_real_verbs():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    verbs = set(re.findall(r"\bfedse ([a-z]+)\b", " ".join(re.findall(r"`([^`]+)`", text))))
    assert {"run", "demo"} <= verbs <= set(VERBS)


@pytest.mark.parametrize("page", ADRS, ids=lambda page: page.name)
def test_a_decision_has_its_four_parts(page: Path):
    parts = re.findall(r"^## (.+)$", page.read_text(), flags=re.MULTILINE)
    expected = ["Context", "Decision", "Consequences", "What would change our mind"]
    assert parts == expected


def test_decisions_that_are_cited_exist():
    numbers = {page.name[:4] for page in ADRS}
    sources = [*PAGES, *ROOT.glob("fedse/**/*.py")]
    cited = {n for path in sources for n in re.findall(r"docs/adr/(\d{4})", path.read_text())}
    assert cited
    assert cited <= numbers
