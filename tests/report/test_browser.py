"""The page in a real browser: drawn, accessible, silent on the network, strict about scripts."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.needs import lacking, needs

needs("websockets")

from fedse.report.page import render
from tests.report.browser import Page, browser, chromium
from tests.report.runs import made_up

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
CLIENTS = {"a": "maze", "b": "wordle", "c": "</script><img src=x onerror=document.title=1>"}
# Width in px, and whether the reader prefers dark.
LOOKS = {
    "one": ((1280, False), (1280, True), (360, True), (360, False)),
    "two": ((1280, False), (360, True)),
}
MADE = datetime(2026, 11, 15, 13, 0)

OPEN_ALL = "document.querySelectorAll('details').forEach((part) => { part.open = true })"
ALL_DRAWN = "[...document.querySelectorAll('.plot')].every((p) => p.dataset.drawn === 'yes')"
# Of each plot: how many lines, areas, bars and markers have an extent.
MARKS = """[...document.querySelectorAll('.plot')].map((plot) =>
  [...plot.querySelectorAll('.role-mark path')].filter((mark) => {
    const box = mark.getBBox();
    return box.width > 0 || box.height > 0;
  }).length)"""
FILLS = """[...document.querySelectorAll('.plot [fill^="url("]')].every((mark) =>
  document.querySelector(mark.getAttribute('fill').slice(4, -1).replaceAll('"', '')))"""
WIDTH = "document.documentElement.scrollWidth"
VIOLATIONS = """axe.run({ exclude: [%s] }, { resultTypes: ['violations'] }).then(
  (found) => found.violations.map((v) =>
  v.id + ': ' + v.nodes.map((node) => node.html.slice(0, 120)).join(' | ')))"""
INTRUDE = """(() => {
  const script = document.createElement('script');
  script.textContent = 'window.intruded = true';
  document.body.append(script);
  return fetch('http://example.org/').then(() => 'fetched', () => String(window.intruded));
})()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = chromium() or lacking("Chromium is not installed: apt-get install chromium")
    with browser(program, tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of one run and a page of two."""
    root = tmp_path_factory.mktemp("pages")
    alone = made_up(root, rounds=5, clients=CLIENTS, name="alone", collapsing="b")
    first = made_up(root, rounds=2, clients={"a": "maze", "b": "wordle"}, name="first")
    second = made_up(root, rounds=1, clients={"a": "maze"}, name="second")
    written = {"one": root / "one.html", "two": root / "two.html"}
    written["one"].write_text(render([alone], now=MADE))
    written["two"].write_text(render([first, second], now=MADE))
    return written


@pytest.mark.parametrize("name", ["one", "two"])
def test_page(page: Page, files: dict[str, Path], name: str):
    page.requests.clear()
    page.complaints.clear()
    page.look(width=1280, dark=False)
    page.open(files[name])
    page.ask(OPEN_ALL)
    page.wait(ALL_DRAWN)
    marks = page.ask(MARKS)
    assert len(marks) >= 20
    assert min(marks) >= 1
    assert page.ask(FILLS)
    page.ask(f"{AXE};0")
    checked = False
    for width, dark in LOOKS[name]:
        page.look(width=width, dark=dark)
        assert page.ask("matchMedia('(prefers-color-scheme: dark)').matches") == dark
        page.wait(f"{WIDTH} <= {width}")
        # Inside a drawing nothing depends on the look but colours, which axe cannot tell there.
        skipped = "['.plot']" if checked else ""
        assert page.ask(VIOLATIONS % skipped) == [], (width, dark)
        checked = True
    assert page.ask("document.images.length") == 0
    assert page.requests == [files[name].as_uri()]
    assert page.complaints == []


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_phone_that_opens_the_page_scrolls_one_way_only(
    page: Page, files: dict[str, Path], name: str
):
    page.look(width=360, dark=False)
    page.open(files[name])
    assert page.ask(WIDTH) <= 360


# Of each table that can be seen: whether it goes on to the right, fades there, and says so.
CUES = """[...document.querySelectorAll('div.scroll')].filter((b) => b.clientWidth).map((box) => [
  box.scrollWidth - box.clientWidth - box.scrollLeft > 1,
  getComputedStyle(box).maskImage !== 'none',
  box.nextElementSibling.checkVisibility()])"""
NAMES_AT_THE_EDGE = """(() => {
  const left = (element) => element.getBoundingClientRect().left;
  const edge = left(document.querySelector('#final .scroll'));
  const names = [...document.querySelectorAll('#final td:first-child')];
  return names.length > 0 && names.every((cell) => Math.abs(left(cell) - edge) <= 2);
})()"""
TO_THE_END = """document.querySelectorAll('div.scroll').forEach((box) =>
  box.scrollTo({ left: box.scrollWidth, behavior: 'instant' }))"""


@pytest.mark.parametrize("width", [1280, 390])
def test_a_table_that_is_cut_says_so_until_one_is_at_its_end(
    page: Page, files: dict[str, Path], width: int
):
    page.look(width=width, dark=False)
    page.open(files["two"])
    page.ask(OPEN_ALL)
    page.wait(f"{CUES}.every(([more, fades, says]) => more === fades && more === says)")
    cut = [more for more, _, _ in page.ask(CUES)]
    assert len(cut) > 10
    assert sum(cut) > 5 if width == 390 else not any(cut)
    page.ask(TO_THE_END)
    page.wait(f"{CUES}.every(([more, fades, says]) => !more && !fades && !says)")
    # The name of the row is still there.
    assert page.ask(NAMES_AT_THE_EDGE)


def test_closed_parts_are_drawn_when_a_link_opens_them(page: Page, files: dict[str, Path]):
    page.look(width=1280, dark=False)
    page.open(files["two"])
    drawn = "document.querySelectorAll('#r2-run .plot svg').length"
    assert page.ask(drawn) == 0
    page.ask("document.querySelector('a[href=\"#r2-run\"]').click()")
    page.wait(f"{drawn} === document.querySelectorAll('#r2-run .plot').length")


def test_numbers_can_be_saved(page: Page, files: dict[str, Path], tmp_path: Path):
    page.look(width=1280, dark=False)
    page.open(files["one"])
    page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.ask("document.querySelector('[data-save=success-env]').click()")
    saved = tmp_path / "success-env.csv"
    page.wait_for(saved.exists)
    lines = saved.read_text(encoding="utf-8").splitlines()
    assert lines[0] == '"round","env","won","played","rate","low","high"'
    assert lines[1].startswith('0,"</script><img src=x onerror=document.title=1>",10,50,0.2,')
    assert len(lines) == 1 + 6 * 4


def test_a_narrower_window_keeps_the_figures_inside(page: Page, files: dict[str, Path]):
    page.look(width=1280, dark=False)
    page.open(files["one"])
    page.look(width=360, dark=False)
    page.wait("[...document.querySelectorAll('.plot svg')].every((s) => s.clientWidth <= 360)")
    assert page.ask(WIDTH) <= 360


def test_the_policy_stops_intruders(page: Page, files: dict[str, Path]):
    page.open(files["one"])
    assert page.ask(INTRUDE) == "undefined"
