"""The page: facts in, one HTML text out that needs no other file and may load none.

Its policy allows exactly the scripts and the style that it contains, each by its digest. All text
of a run is escaped by the template; data for the figures is JSON in which no tag can be written.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from importlib.resources import files
from math import isfinite
from typing import Any

from fedse.errors import require_packages
from fedse.report.charts import THEME
from fedse.report.facts import RunFacts
from fedse.report.figures import Figure, PageSection
from fedse.report.headline import Headline, headline
from fedse.report.sections import run_sections
from fedse.report.several import comparison
from fedse.report.tables import Cell, Column

SCRIPTS = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-interpreter.js", "page.js")
LICENCES = ("vega", "vega-lite", "vega-interpreter", "bundled")
MOST_OPEN, MOST_FOLDED = 100, 600
"""Rows of a table that is shown at once, and of one that a reader has to unfold."""
NO_VALUE = "\N{EN DASH}"


@dataclass(frozen=True)
class RunPart:
    """One run on the page."""

    facts: RunFacts
    prefix: str
    head: Headline
    sections: list[PageSection]


def render(runs: Sequence[RunFacts], *, now: datetime) -> str:
    """The whole page; with several runs the comparison comes first."""
    alone = len(runs) == 1
    parts = [_part(run, "" if alone else f"r{i}-") for i, run in enumerate(runs, 1)]
    shared = [] if alone else comparison(runs)
    sections = [*shared, *(section for part in parts for section in part.sections)]
    data = {
        "theme": THEME,
        "figures": {f.id: _drawing(f) for section in sections for f in section.figures},
    }
    scripts, style = [asset(name) for name in SCRIPTS], asset("page.css")
    page: str = template("template.html.j2").render(
        parts=parts,
        most_open=MOST_OPEN,
        most_folded=MOST_FOLDED,
        shared=shared,
        alone=alone,
        title=parts[0].facts.label if alone else f"{len(parts)} runs",
        made=now.astimezone().isoformat(timespec="minutes"),
        policy=policy(scripts, style),
        scripts=scripts,
        style=style,
        data=safe_json(data),
        licences=[(name, asset(f"vendor/{name}.LICENSE.txt")) for name in LICENCES],
    )
    return page.lstrip()


def _part(run: RunFacts, prefix: str) -> RunPart:
    return RunPart(run, prefix, headline(run), run_sections(run, prefix))


def _drawing(figure: Figure) -> dict[str, Any]:
    return {
        "columns": [column.key for column in figure.table.columns],
        "rows": [[_brief(cell) for cell in row] for row in figure.table.rows],
        "panels": [{"spec": p.spec, "by": p.by, "values": p.values} for p in figure.panels],
    }


def _brief(cell: Cell) -> Cell:
    """Six digits are more than a screen can show."""
    if not isinstance(cell, float):
        return cell
    return float(f"{cell:.6g}") if isfinite(cell) else None


def safe_json(value: object) -> str:
    """JSON for a script element; no text in it can open a tag or a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy(scripts: Sequence[str], style: str) -> str:
    """A policy that loads nothing and allows only these scripts and this style."""
    allowed = " ".join(f"'{source_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src '{source_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def source_digest(text: str) -> str:
    """How a page's policy names an inline script or style."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def written(cell: Cell, column: Column) -> str:
    """A cell as the reader sees it."""
    if cell is None or (isinstance(cell, float) and not isfinite(cell)):
        return NO_VALUE
    if isinstance(cell, str):
        return cell
    match column.kind:
        case "rate" | "megabytes":
            return f"{cell:.2f}"
        case "change":
            return f"{cell:+.2f}"
        case "seconds":
            return f"{cell:,.1f}"
        case "number":
            return f"{cell:.3f}"
        case _:
            return f"{cell:,}"


def asset(name: str, package: str = "fedse.report") -> str:
    """The text of a file that comes with the report, or with another package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def template(name: str, package: str = "fedse.report") -> Any:
    """A template of the report, or of another package, which escapes all text it is given."""
    require_packages("a report", "jinja2", extra="report")
    from jinja2 import Environment, StrictUndefined

    env = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    env.filters["written"] = written
    return env.from_string(asset(name, package))


def watch_page() -> tuple[str, str]:
    """The coordinator's page, whose script asks only its own server, and the policy to serve it."""
    style, script = asset("page.css"), asset("watch.js")
    text = asset("watch.html").replace("{style}", style).replace("{script}", script)
    return text, f"{policy([script], style)}; connect-src 'self'; frame-ancestors 'none'"
