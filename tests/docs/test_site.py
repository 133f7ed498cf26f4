"""The docs site: it builds without a warning, holds together, and asks nobody for anything."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.check_site import problems
from scripts.reference_text import SUBJECTS
from tests.needs import needs
from tests.report.browser import Page, browser, chromium

ROOT = Path(__file__).parents[2]
SEARCHED = "[...document.querySelectorAll('div')].find((part) => part.shadowRoot).shadowRoot"
DRAWN = "document.querySelector('div.mermaid')?.clientHeight > 300"
WIDTH = "document.documentElement.scrollWidth"


def copied(folder: Path) -> Path:
    """The sources of the site, in a folder of their own."""
    for name in ("docs", "packaging/site"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "zensical.toml", folder)
    return folder


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    needs("zensical")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    quiet = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=folder, env=quiet, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copied(tmp_path_factory.mktemp("site"))
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stderr
    return folder / "site"


def test_it_holds_together(site: Path):
    assert [*problems(site)] == []
    assert len([*site.rglob("*.html")]) > 40


def test_every_page_is_in_the_navigation():
    def listed(part: object) -> Iterator[str]:
        if isinstance(part, str):
            yield part
        for inner in part.values() if isinstance(part, dict) else part:
            if not isinstance(part, str):
                yield from listed(inner)

    settings = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    pages = [str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")]
    assert sorted(listed(settings["nav"])) == sorted(pages)


def test_a_decision_stands_under_its_subject():
    menu = (ROOT / "zensical.toml").read_text()
    for subject, inside in re.findall(r'{ "(\w+)" = \[\n((?: +"adr/\d.*\n)+)', menu):
        for name in re.findall(r'"(adr/.+)"', inside):
            assert f"\nSubject: {subject.lower()}\n" in (ROOT / "docs" / name).read_text(), name
    assert set(SUBJECTS) <= {subject.lower() for subject in re.findall(r'{ "(\w+)" =', menu)}


@pytest.mark.parametrize("link", ["nowhere.md", "results.md#nowhere"])
def test_a_broken_link_stops_the_build(tmp_path: Path, link: str):
    folder = copied(tmp_path)
    with (folder / "docs" / "index.md").open("a") as page:
        page.write(f"\n[a link]({link})\n")
    assert build(folder).returncode != 0


def test_the_check_finds_what_is_wrong(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        '<h2 id="here"></h2><a href="#here"></a><a href="#there"></a><a href="b.html#x"></a>'
        '<a href="c.html"></a><a href="https://example.org/"></a>'
        '<img src="//example.org/x.png"><link rel="stylesheet" href="s.css"><p>List:\n- item</p>'
    )
    (tmp_path / "b.html").write_text("<p>1 - 1 = 0</p>")
    assert [*problems(tmp_path)] == [
        "a.html loads //example.org/x.png",
        "a.html links to s.css: there is no such file",
        "a.html links to #there: there is no such anchor",
        "a.html links to b.html#x: there is no such anchor",
        "a.html links to c.html: there is no such file",
        "a.html shows Markdown as text: '-'",
    ]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    needs("chromium")
    with browser(str(chromium()), tmp_path_factory.mktemp("profile")) as page:
        yield page


def show(tab: Page, file: Path, *, width: int, dark: bool = False) -> None:
    tab.look(width=width, dark=dark)
    tab.call("Page.navigate", url=file.resolve().as_uri())
    tab.wait(f"location.href.startsWith({file.resolve().as_uri()!r})")
    tab.wait("document.readyState === 'complete'")


@pytest.mark.slow
def test_no_page_asks_another_host_or_is_wider_than_the_screen(tab: Page, site: Path):
    tab.requests.clear()
    tab.complaints.clear()
    pages = sorted(set(site.rglob("*.html")) - {site / "404.html"})
    for place, file in enumerate(pages):
        width = (390, 1280)[place % 2]
        show(tab, file, width=width, dark=place % 3 == 0)
        assert tab.ask(WIDTH) <= width, file
    for width in (390, 1280):
        show(tab, site / "explanation" / "architecture.html", width=width)
        tab.wait(DRAWN)
    assert len(tab.requests) > 3 * len(pages)
    assert [url for url in tab.requests if not url.startswith(("file://", "data:"))] == []
    assert tab.complaints == []


@pytest.mark.slow
def test_the_search_works_on_files(tab: Page, site: Path):
    show(tab, site / "index.html", width=1280)
    tab.ask("document.querySelector('.md-search__button').click()")
    tab.wait(f"{SEARCHED}?.querySelector('input')")
    tab.call("Input.insertText", text="quarantine")
    tab.wait(f"{SEARCHED}.querySelector('a')?.href.includes('how-to/operate.html')")
