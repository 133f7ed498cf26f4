"""The reference pages are made from the code, and the code is read as it is."""

import ast
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from cyclopts import App, CycloptsError

import fedse
from fedse import errors
from fedse.cli.app import BUG_EXIT, GROUPS, INTERRUPT_EXIT, USAGE_EXIT, VERBS, build_app
from fedse.config.keys import config_keys, keys_of
from fedse.config.presets import PRESETS
from fedse.faults import Fault
from fedse_serve.settings import ServiceSettings
from scripts.make_reference import PAGES, WITH_PRESETS, page, with_presets
from scripts.markdown import table
from scripts.read_source import definition_of, doc_of, emitted_events, member_docs, stub

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
made = cache(page)
"""The text of a page as the script makes it, when a test asks for it."""


# This example of the code lacks the option --out.


def can_be_typed(app: App, line: str) -> bool:
    """Whether the verb exists and takes these arguments."""
    program, *words = shlex.split(line, comments=True)
    try:
        app.parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError:
        return False
    return program == "fedse"


def blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", made(path), flags=re.M | re.S)


@pytest.mark.parametrize("path", PAGES)
def test_the_page_is_what_the_script_makes(path: str):
    """Made by: python -m scripts.make_reference"""
    assert (DOCS / path).read_text() == made(path)


@pytest.mark.parametrize("path", WITH_PRESETS)
def test_the_table_of_presets_is_what_the_script_makes(path: str):
    """Made by: python -m scripts.make_reference"""
    text = (ROOT / path).read_text()
    assert with_presets(text) == text
    for name in PRESETS:
        assert f"| `{name}` |" in text


def test_the_terminal_does_not_matter():
    code = "from scripts.make_reference import page; print(page('reference/commands.md'))"
    for columns in ("20", "300"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={
                "PATH": "",
                "COLUMNS": columns,
                "PYTHONHASHSEED": columns,
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == made("reference/commands.md") + "\n"


def test_every_command_is_there_and_its_example_can_be_typed():
    app, examples = (
        build_app(),
        [block.strip() for block in blocks("reference/commands.md", "bash")],
    )
    leaves = [
        f"fedse {verb} {inner}"
        for verb in GROUPS
        for inner in app[verb]
        if not inner.startswith("-") and inner != "resume"
    ]
    plain = [f"fedse {verb}" for verb in VERBS if verb not in GROUPS]
    heads = re.findall(r"^##+ (.+)$", made("reference/commands.md"), flags=re.M)
    assert {*leaves, *plain} <= {*heads}
    assert len(examples) == len(heads)
    assert {example for example in examples if not can_be_typed(app, example)} == set()


def test_every_setting_is_there_once():
    told = re.findall(r"^\| `([\w.]+)` \|", made("reference/config.md"), flags=re.M)
    assert told == [key.name for key in config_keys().values() if not key.is_section]


def test_every_setting_of_a_service_is_there_once():
    told = re.findall(r"^\| `([\w.]+)` \|", made("reference/service.md"), flags=re.M)
    keys = keys_of(ServiceSettings, "service").values()
    assert sorted(told) == sorted(key.name for key in keys if not key.is_section)
    assert {"service.engine", "service.metrics.NAME.type", "service.canary.shares"} < {*told}


def test_every_exit_code_is_there():
    told = re.findall(r"^\| `(\d+)` \| (?:`(\w+)`)?", made("reference/exit-codes.md"), flags=re.M)
    raised = {str(k.exit_code): k.__name__ for k in errors.FedSEError.__subclasses__()
              if k.__module__ == errors.__name__}  # fmt: skip
    ours = {str(USAGE_EXIT), str(BUG_EXIT), str(INTERRUPT_EXIT), str(int(Fault.WITHHELD)), "0"}
    assert {number for number, _ in told} == ours | set(raised)
    assert {n: name for n, name in told if n in raised} == raised


def test_every_public_name_is_there_and_its_signature_is_python():
    heads = re.findall(r"^### (.+)$", made("reference/api.md"), flags=re.M)
    assert sorted(heads) == sorted(fedse.__all__)
    signatures = blocks("reference/api.md", "python")
    assert len(signatures) == len(fedse.__all__)
    for signature in signatures:
        ast.parse(signature)


def test_events_are_read_from_the_calls():
    source = """
def f(emit, run, reply):
    emit("a.begun", round=1, **facts(2))
    numbers = reply.counts()
    run.emit("b.done", client="x", **numbers)
    run.emit(event, other=1)
    log("c.no", x=1)

def facts(x):
    return {"y": x, "z": 0}
"""
    found = emitted_events({"m": source}, {"reply.counts()": ["n"]})
    assert found == [("a.begun", "m", ("round", "y", "z")), ("b.done", "m", ("client", "n"))]
    with pytest.raises(LookupError, match=r"which fields are in \*\*reply.counts\(\)"):
        emitted_events({"m": source}, {})


def test_a_definition_is_shown_as_it_is_written():
    source = '''
Names = list[str]
"""Some names."""

class Cat(Animal):
    """Purrs."""

    lives: int = 9
    """How often it
    can die."""
    _secret: str

    def __init__(self, lives: int) -> None: ...

    @property
    def purr(self, /, a: int, *, louder_than_any_other_cat: bool = True, b: str = "x") -> str:
        """A sound."""
        return "rr"

    def _hide(self): ...
'''
    assert stub(definition_of("Names", source)) == "Names = list[str]"
    assert doc_of("Names", source) == "Some names."
    assert member_docs(definition_of("Cat", source)) == {
        "lives": "How often it can die.",
        "purr": "A sound.",
    }
    assert stub(definition_of("Cat", source)).splitlines() == [
        "class Cat(Animal):",
        "    lives: int = 9",
        "    def __init__(self, lives: int) -> None: ...",
        "    @property",
        "    def purr(",
        "        self,",
        "        /,",
        "        a: int,",
        "        *,",
        "        louder_than_any_other_cat: bool = True,",
        "        b: str = 'x',",
        "    ) -> str: ...",
    ]
    with pytest.raises(LookupError):
        definition_of("Dog", source)


def test_a_table_keeps_its_columns():
    assert table(["a", "b"], [("1 | 2", "x\n  y")]) == "| a | b |\n| --- | --- |\n| 1 \\| 2 | x y |"
