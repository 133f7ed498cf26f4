"""How much of the house a person has to hold in mind: one table, beside that of an earlier commit.

    python -m scripts.surface                     this checkout
    python -m scripts.surface --rev 063bd80       that commit and this checkout, side by side
    python -m scripts.surface --list              where branches are, and who names secure

A branch on a setting is the test of an `if`, `elif`, `while`, conditional expression or
comprehension that reads an attribute of something called `config` or `settings` (`config.x`,
`run.config.x`, `settings.x`); a method that is called there is not a setting, nor is the name of
an experiment or of its members. A test counts once.
Modules in `fedse/config/` and functions in COMPOSITION do not count: they may read settings.

The code of a file names secure if the word is part of a name, a keyword or an import. Files in
`fedse/config/` and `fedse/secure_sum/` do not count.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.import_picture import ROOT, Sources, picture_of, room_of, sources_below
from scripts.markdown import table

COMPOSITION = (
    "drivers.stages:stages_of",
    "drivers.stages:introduce",
    "drivers.run:_run_agreed",
    "site.answer:steps_of",
)
"""The functions that put a round, a run on one machine and a site's answer together."""
IDENTITY = ("members", "name")
"""Of a config: who takes part in which experiment. Nobody chooses a behaviour with them."""
OWN_ROOMS = ("config", "secure_sum")

FROM_FIT_TO_COMMIT = (
    "types:Fitted",
    "types:ClientUpdate",
    "protocol:SiteReply",
    "protocol:Delivery",
    "method.site:Answer",
    "aggregate.merge:Vote",
    "method.site:Merged",
    "committed:RoundResult",
)
"""The types that carry an adapter between a site's training and the server's commit, in order."""
EARLIER: Mapping[str, tuple[str, ...]] = {
    "063bd80": (
        *FROM_FIT_TO_COMMIT,
        "flower.server.transport:Heard",
        "drivers.replies:ExpectedReply",
        "drivers.gating:Gated",
    )
}
"""The same at earlier commits."""

AIMS = {
    "lines of fedse/": 40_000,
    "settings": 100,
    "commands": 48,
    "public names": 100,
    "extras": 20,
    "files whose code names secure outside its room": 5,
    "branches on settings outside config and composition": 40,
    "types between fit and commit": 6,
    "files in scripts/": 20,
    "upward arrows": 0,
    "circles": 0,
}

# Run inside a checkout, whose own schema and parser answer.
ASK_THE_CODE = """
import json
from inspect import Parameter
from fedse.cli.app import build_app
from fedse.config.keys import config_keys

seen = set()

def walk(app):
    if app.default_command in seen:
        return
    seen.update({app.default_command} - {None})
    arguments = [*app.assemble_argument_collection()] if app.default_command else []
    placed = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)
    options = sum(one.field_info.kind not in placed for one in arguments)
    yield bool(app.default_command), options, len(arguments) - options
    for word in app:
        if not word.startswith("-"):
            yield from walk(app[word])

commands, options, places = (sum(column) for column in zip(*walk(build_app())))
settings = sum(not key.is_section for key in config_keys().values())
print(json.dumps([settings, commands, options, places]))
"""


def figures(tree: Path, types: Sequence[str]) -> dict[str, int]:
    """Every figure of the checkout in `tree`."""
    sources = sources_below(tree)
    picture = picture_of(sources)
    settings, commands, options, places = _asked(tree)
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    return {
        "lines of fedse/": sum(text.count("\n") for text in sources.values()),
        "settings": settings,
        "commands": commands,
        "options": options,
        "positional arguments": places,
        "public names": len(public_names((tree / "fedse" / "__init__.pyi").read_text())),
        "extras": len(project["optional-dependencies"]),
        "files whose code names secure outside its room": len(named_in_code(sources, "secure")),
        "files with the word secure outside its room": len(named(sources, "secure")),
        "branches on settings outside config and composition": len([*branches(sources)]),
        "types between fit and commit": types_of(sources, types),
        "files in scripts/": sum(path.is_file() for path in (tree / "scripts").iterdir()),
        "rooms": picture.rooms,
        "arrows between rooms": picture.arrows,
        "upward arrows": picture.upward,
        "circles": picture.circles + picture.inner_circles,
    }


def public_names(stub: str) -> set[str]:
    """What the stub of the package exports."""
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def branches(sources: Sources) -> Iterator[tuple[str, int]]:
    """Module and line of every branch on a setting."""
    for module, text in sources.items():
        if room_of(module) == "config":
            continue
        tree = ast.parse(text)
        composing = {id(inner) for node in tree.body for inner in _composing(module, node)}
        tests = [t for node in ast.walk(tree) if id(node) not in composing for t in _tests(node)]
        yield from ((module, test.lineno) for test in tests if _reads_setting(test))


def named(sources: Sources, word: str) -> list[str]:
    """The modules, outside its own rooms, in whose text `word` stands."""
    found = re.compile(rf"\b{word}\b", re.IGNORECASE)
    return [module for module, text in _elsewhere(sources) if found.search(text)]


def named_in_code(sources: Sources, word: str) -> list[str]:
    """The modules, outside its own rooms, that have `word` in a name, a keyword or an import."""
    found = re.compile(rf"(?<![a-z]){word}(?![a-z])", re.IGNORECASE)
    return [
        module
        for module, text in _elsewhere(sources)
        if any(found.search(name) for name in _names(ast.parse(text)))
    ]


def _elsewhere(sources: Sources) -> Iterator[tuple[str, str]]:
    return ((name, text) for name, text in sources.items() if room_of(name) not in OWN_ROOMS)


def _composing(module: str, node: ast.stmt) -> Iterator[ast.AST]:
    """All of a function in COMPOSITION, nothing of any other."""
    if isinstance(node, ast.FunctionDef) and f"{module}:{node.name}" in COMPOSITION:
        yield from ast.walk(node)


def _tests(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return [node.test]
    return node.ifs if isinstance(node, ast.comprehension) else []


def _reads_setting(test: ast.expr) -> bool:
    left_out = {id(node.func) for node in ast.walk(test) if isinstance(node, ast.Call)}
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and node.attr in IDENTITY:
            left_out |= {id(node), id(node.value)}
    read = (node for node in ast.walk(test) if isinstance(node, ast.Attribute))
    return any(
        _name(node.value) in ("config", "settings") for node in read if id(node) not in left_out
    )


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _names(tree: ast.AST) -> Iterator[str]:
    """Every name, attribute, keyword and import of the code."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "module"):
            yield str(getattr(node, field, None) or "")


def types_of(sources: Sources, types: Sequence[str]) -> int:
    """How many `types` there are; each is a class of the code."""
    for name in types:
        module, _, kind = name.partition(":")
        if not re.search(rf"^class {kind}\b", sources.get(module, ""), re.MULTILINE):
            raise SystemExit(f"no class {name} in fedse: change FROM_FIT_TO_COMMIT")
    return len(types)


def _asked(tree: Path) -> list[int]:
    # A command may be one of a plug-in's.
    found = os.pathsep.join(map(str, (tree, *tree.glob("plugins/*/"))))
    environment = {**os.environ, "PYTHONPATH": found}
    line = [sys.executable, "-c", ASK_THE_CODE]
    done = subprocess.run(line, cwd=tree, env=environment, stdout=subprocess.PIPE, check=True)
    counted: list[int] = json.loads(done.stdout)
    return counted


def figures_at(revision: str) -> dict[str, int]:
    """Every figure of an earlier commit."""
    with TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", revision],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        return figures(Path(folder), EARLIER.get(revision, FROM_FIT_TO_COMMIT))


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rev", help="an earlier commit beside this checkout")
    parser.add_argument("--list", action="store_true", help="show where, instead of how many")
    given = parser.parse_args()
    if given.list:
        sources = sources_below(ROOT)
        print(*(f"{module}:{line}" for module, line in branches(sources)), sep="\n")
        print("secure:", *named_in_code(sources, "secure"))
        return
    columns = [figures_at(given.rev)] if given.rev else []
    columns += [figures(ROOT, FROM_FIT_TO_COMMIT)]
    heads = [*([given.rev] if given.rev else []), "here", "aim"]
    rows = [
        (
            name,
            *(f"{column[name]:,}" for column in columns),
            f"<= {AIMS[name]:,}" if name in AIMS else "",
        )
        for name in columns[0]
    ]
    print(table(["count", *heads], rows))


if __name__ == "__main__":
    main()
