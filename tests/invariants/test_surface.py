"""The counts of scripts/surface.py, on code small enough to count by hand."""

import pytest

from scripts.import_picture import ROOT, sources_below
from scripts.surface import (
    COMPOSITION,
    FROM_FIT_TO_COMMIT,
    branches,
    named,
    named_in_code,
    public_names,
    types_of,
)

BRANCHES = """
def f(run, config, settings, other):
    if config.a and config.b:
        return 1 if run.config.gate.episodes else 2
    elif settings.on:
        return [x for x in other if settings.c == x if other.d]
    while config.is_done():
        value = config.e
    if other.config:
        return config.f
"""


def test_a_branch_is_a_test_that_reads_a_setting() -> None:
    assert [*branches({"site.serve": BRANCHES})] == [
        ("site.serve", 3),
        ("site.serve", 5),
        ("site.serve", 4),
        ("site.serve", 6),
    ]
    assert [*branches({"config.schema": BRANCHES})] == []
    composing = BRANCHES.replace("def f(", "def steps_of(")
    assert [*branches({"site.answer": composing})] == []
    assert len([*branches({"site.serve": composing})]) == 4


def test_what_composes_is_there() -> None:
    sources = sources_below(ROOT)
    for name in COMPOSITION:
        module, _, function = name.partition(":")
        assert f"\ndef {function}(" in sources[module]


def test_a_word_in_a_docstring_is_not_in_the_code() -> None:
    sources = {
        "a": '"""A secure sum."""\n# secure',
        "b": "from fedse.secure_sum import roster",
        "c": "print('insecure', secured)",
        "d": "f(secure=1)",
        "secure_sum.roster": "secure = 1",
        "config.schema": "secure = 1",
    }
    assert named(sources, "secure") == ["a", "d"]
    assert named_in_code(sources, "secure") == ["b", "d"]


def test_public_names_are_those_of_the_stub() -> None:
    assert public_names("from .a import B as B, C as C\nfrom .d import e as e\n__all__ = []") == {
        "B",
        "C",
        "e",
    }


def test_every_type_an_adapter_passes_through_is_one_of_the_code() -> None:
    assert types_of(sources_below(ROOT), FROM_FIT_TO_COMMIT) == len(FROM_FIT_TO_COMMIT)
    with pytest.raises(SystemExit, match="Gone"):
        types_of({"types": "class Fitted: ..."}, ("types:Fitted", "types:Gone"))
