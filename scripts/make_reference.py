"""Write the reference pages of the docs from the code.

    python -m scripts.make_reference             the pages in docs/ are up to date
    python -m scripts.make_reference --check     says which are not, and exits with 1

commands from the command line's own parser, settings from the schema, events and signatures from
the source, exit codes from the error classes, versions from pyproject.toml and the constraints.
"""

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from textwrap import fill
from typing import Any

import fedse
from fedse import errors
from fedse.cli.privacy_explain import of_preset
from fedse.config.keys import ANY, ConfigKey, config_keys, keys_of
from fedse.config.presets import PRESETS
from fedse.federation import security
from fedse.privacy.explained import PROTECTIONS, Protection, named_settings
from fedse.types import ClientStats
from fedse_serve.settings import NAME as SERVICE
from fedse_serve.settings import ServiceSettings
from scripts.import_picture import sources_here
from scripts.markdown import code, table
from scripts.read_commands import command_parts
from scripts.read_source import definition_of, doc_of, emitted_events, member_docs, stub
from scripts.reference_text import (
    AREAS,
    COMPATIBILITY,
    COUNTS,
    EVENTS,
    INTRO,
    OTHER_EXITS,
    PARTS,
    SPREAD,
    SUBJECTS,
)

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 100
MADE = "<!-- Made by `python -m scripts.make_reference`; change the code, not this page. -->"


def pages() -> dict[str, str]:
    """Path below docs/ -> the text of the page."""
    return {path: page(path) for path in PAGES}


def page(path: str) -> str:
    """The text of the page at this path below docs/."""
    return _page(path, PAGES[path]())


def _page(path: str, parts: Iterator[str]) -> str:
    title, first = INTRO[path]
    first = fill(first, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join([f"# {title}", MADE, first, *parts]) + "\n"


# --- settings


def _config() -> Iterator[str]:
    keys = config_keys()
    for section in (key for key in keys.values() if key.is_section):
        several = section.expected == "one table or more"
        yield f"## {section.name}"
        yield f"In the file: `{f'[[{section.name}]]' if several else f'[{section.name}]'}`."
        yield _settings(section.name, keys)


def _service() -> Iterator[str]:
    keys = keys_of(ServiceSettings, SERVICE)
    sections = {SERVICE: "", **{key.name: key.about for key in keys.values() if key.is_section}}
    for section, about in sections.items():
        named = f"; {ANY} is yours to choose, and there may be several" if ANY in section else ""
        yield f"## {section}"
        yield f"In the file: `[{section}]`{named}. {about}".rstrip()
        yield _settings(section, keys)


def _settings(section: str, keys: Mapping[str, ConfigKey]) -> str:
    settings = [key for key in keys.values() if not key.is_section]
    inside = [k for k in settings if k.name.rpartition(".")[0] == section]
    rows = [(f"`{k.name}`", _default(k), f"{k.about} Must be {k.expected}.") for k in inside]
    return table(["key", "default", "meaning"], rows)


def _default(key: ConfigKey) -> str:
    return {"unset": "unset", "none, it must be given": "required"}.get(
        key.default, f"`{key.default}`"
    )


# --- events


def _events(sources: Mapping[str, str]) -> Iterator[str]:
    fields: dict[str, tuple[str, ...]] = {}
    side: dict[str, str] = {}
    for name, module, told in emitted_events(sources, SPREAD):
        if fields.setdefault(name, told) != told:
            raise ValueError(f"{name} has other fields in {module}: {told}, {fields[name]}")
        at_site = name.startswith("site.") or module.partition(".")[0] in ("method", "site")
        side[name] = "site" if at_site else "coordinator"
    if set(fields) != set(EVENTS):
        raise ValueError(f"without a description, or without code: {set(fields) ^ set(EVENTS)}")
    for who in ("coordinator", "site"):
        yield f"## Of the {who}"
        rows = [(f"`{n}`", EVENTS[n], ", ".join(fields[n])) for n in EVENTS if side[n] == who]
        yield table([f"{who}'s event", "emitted when", "fields"], rows)
    yield "## What a client counts"
    yield "The numbers in `answer.received`, besides `round`, `client`, `fault` and `bytes`."
    source = inspect.getsource(sys.modules[ClientStats.__module__])
    docs = member_docs(definition_of(ClientStats.__name__, source)) | COUNTS
    yield table(["field", "meaning"], [(f"`{n}`", docs[n]) for n in ClientStats.model_fields])


def _security_events() -> Iterator[str]:
    yield "## Events"
    rows = [(f"`{name}`", *kind) for name, kind in security.EVENTS.items()]
    yield table(["event", "severity", "noted when"], rows)
    yield "## Fields"
    about = {"event": "As above.", "severity": "As above.", "federation": "Its name."}
    docs = about | member_docs(definition_of("SecurityEvent", inspect.getsource(security)))
    fields = security.SecurityEvent.model_fields
    always = {name: "always" if field.is_required() else "" for name, field in fields.items()}
    yield table(["field", "there", "meaning"], [(f"`{n}`", always[n], docs[n]) for n in fields])


# --- exit codes


def _exit_codes() -> Iterator[str]:
    tree = re.findall(r"(\w+) +(\d+) *(.*)", inspect.getdoc(errors) or "")
    about = {name: text for name, _, text in tree}
    kinds = [errors.FedSEError, *errors.FedSEError.__subclasses__()]
    own = [kind for kind in kinds if kind.__module__ == errors.__name__]
    rows = [(kind.exit_code, f"`{kind.__name__}`", about[kind.__name__]) for kind in own]
    rows += [(number, "", text) for number, text in OTHER_EXITS.items()]
    merged: dict[int, list[str]] = {}
    names: dict[int, str] = {}
    for number, name, text in rows:
        merged.setdefault(number, []).extend([text] if text else [])
        names[number] = names.get(number) or name
    shown = [(f"`{n}`", names[n], "; ".join(merged[n])) for n in sorted(merged)]
    yield table(["code", "exception", "what it means"], shown)


# --- the public names


def _api() -> Iterator[str]:
    kinds: dict[str, list[str]] = {part: [] for part in PARTS}
    for name in sorted(fedse.__all__):
        kinds[_part_of(getattr(fedse, name))].append(name)
    for part, names in kinds.items():
        if names:
            yield f"## {part}"
        for name in names:
            yield from _name(name)


def _part_of(value: Any) -> str:
    if inspect.isclass(value):
        return "Errors" if issubclass(value, BaseException) else "Types"
    return "Functions" if callable(value) and inspect.isroutine(value) else "Other names"


@cache
def _homes() -> dict[str, str]:
    """Public name -> the module it is defined in, as the stub of the package lists them."""
    tree = ast.parse((ROOT / "fedse" / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: f"fedse.{node.module}" for node in imports for alias in node.names}


def _name(name: str) -> Iterator[str]:
    module = _homes()[name]
    source = inspect.getsource(import_module(module))
    node = definition_of(name, source)
    yield f"### {name}"
    yield code(stub(node), "python")
    if text := doc_of(name, source):
        yield text
    if docs := member_docs(node):
        yield table(["member", "meaning"], [(f"`{n}`", text) for n, text in docs.items()])
    yield f"Defined in `{module}`."


# --- versions


def _compatibility() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / ".ci" / "constraints.txt").read_text().split()
    pinned = {_package(name): version for name, _, version in (x.partition("==") for x in lines)}
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(line for extra in extras.values() for line in extra)]
    for beside in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        more = tomllib.loads(beside.read_text())["project"]
        asked += [*more["dependencies"], *chain(*more.get("optional-dependencies", {}).values())]
    ranges: dict[str, str] = {}
    for line in asked:
        name, bounds = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?(.*)", line.replace(" ", "")).groups()
        ranges.setdefault(_package(name), bounds)
    for area, about in AREAS.items():
        yield f"## {area}"
        yield about
        rows = COMPATIBILITY.get(area, {})
        shown = [
            (f"`{n}`", ranges.get(n, "") or "not a dependency", pinned.get(n, "not tested"), where)
            for n, where in rows.items()
        ]
        if rows:
            yield table(["package", "pyproject.toml asks for", "tested version", "where"], shown)


def _package(name: str) -> str:
    return name.lower().replace("_", "-")


# --- decisions


def _decisions() -> Iterator[str]:
    rows: dict[str, list[tuple[str, str, str]]] = {subject: [] for subject in SUBJECTS}
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        head = path.read_text().partition("\n## ")[0]
        title = re.sub(r"^# [0-9]+[.:]? *", "", head.partition("\n")[0])
        facts = dict(re.findall(r"^(Subject|Superseded): (.+)$", head, flags=re.MULTILINE))
        number = f"{int(path.name[:4])}"
        status = f"superseded {facts['Superseded']}" if "Superseded" in facts else "current"
        rows[facts["Subject"]].append((number, f"[{title}]({path.name})", status))
    for subject, about in SUBJECTS.items():
        yield f"## {subject.capitalize()}"
        yield about
        yield table(["number", "decision", "status"], rows[subject])


PAGES: Mapping[str, Callable[[], Iterator[str]]] = {
    "reference/commands.md": command_parts,
    "reference/config.md": _config,
    "reference/service.md": _service,
    "reference/events.md": lambda: _events(sources_here()),
    "reference/security-events.md": _security_events,
    "reference/exit-codes.md": _exit_codes,
    "reference/api.md": _api,
    "reference/compatibility.md": _compatibility,
    "adr/index.md": _decisions,
}
"""Path below docs/ -> what makes the parts of the page."""

PRESET_TABLE = re.compile(r"(<!-- presets, [^>]*-->\n\n)(\|[^\n]*\n)*")
WITH_PRESETS = ("README.md", "docs/how-to/security-officer.md")


def with_presets(text: str) -> str:
    """A page with its table of presets; each row has what the ones before it have not."""
    return PRESET_TABLE.sub(lambda found: f"{found[1]}{_presets()}\n", text)


def _presets() -> str:
    rows, known = [], list[Protection]()
    for name, preset in PRESETS.items():
        new = [one for one in PROTECTIONS if one.on(of_preset(name)) and one not in known]
        does = "; ".join([*(["all of this"] if known else []), *(one.name for one in new)])
        agreed, price = named_settings(preset)[0] or "nothing", "; ".join(one.price for one in new)
        rows.append((f"`{name}`", preset.about, does, agreed, price))
        known += new
    return table(["preset", "for", "what is on", "agreed by all sites", "measured price"], rows)


def main() -> int:
    stale, made = [], {f"docs/{path}": text for path, text in pages().items()}
    made |= {path: with_presets((ROOT / path).read_text()) for path in WITH_PRESETS}
    for path, text in made.items():
        file = ROOT / path
        if not file.exists() or file.read_text() != text:
            stale.append(path)
            if "--check" not in sys.argv:
                file.write_text(text)
    print(*stale, sep="\n", end="\n" if stale else "")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
