"""Does the built docs site hold together, without a network?

    python -m scripts.check_site site      prints each problem, and exits with 1 if there is one

Every link leads to a file of the site and to an anchor that exists there; no page loads anything
from another host; no Markdown was left as text.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
LEADS = {("a", "href")}
# A list or a table that Markdown took for the text of a paragraph, as it does without a blank line.
LEFT_OVER = re.compile(r"^\s*(?:[-*] |\d+\. |\|.*\|\s*$)", re.MULTILINE)


class Page(HTMLParser):
    """What one page has: its anchors, what it leads to, what it loads, its paragraphs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.paragraphs: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.leads += [given[name] for kind, name in LEADS if kind == tag and name in given]
        self.loads += [given[name] for kind, name in LOADS if kind == tag and name in given]
        if tag == "p":
            self.paragraphs.append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "p"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.paragraphs[-1] += data


def problems(site: Path) -> Iterator[str]:
    """One line per problem of the site in this folder."""
    site = site.resolve()
    # The links of 404.html are made for the root of a host, whatever page was not found.
    files = sorted(set(site.rglob("*.html")) - {site / "404.html"})
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    for path, page in pages.items():
        where = path.relative_to(site)
        for target in page.loads:
            if _is_elsewhere(target):
                yield f"{where} loads {target}"
        for target in [*page.loads, *page.leads]:
            if not _is_elsewhere(target) and (fault := _fault(path, target, pages)):
                yield f"{where} links to {target}: {fault}"
        for text in page.paragraphs:
            if found := LEFT_OVER.search(text):
                yield f"{where} shows Markdown as text: {found[0].strip()[:60]!r}"


def _is_elsewhere(target: str) -> bool:
    split = urlsplit(target)
    return bool(split.netloc) or split.scheme in ("http", "https", "mailto")


def _fault(here: Path, target: str, pages: dict[Path, Page]) -> str:
    split = urlsplit(target)
    if split.scheme == "data":
        return ""
    file = Path(normpath(here.parent / unquote(split.path))) if split.path else here
    if not file.is_file():
        return "there is no such file"
    if split.fragment and unquote(split.fragment) not in pages[file].anchors:
        return "there is no such anchor"
    return ""


def main() -> int:
    found = [*problems(Path(sys.argv[1]))]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
