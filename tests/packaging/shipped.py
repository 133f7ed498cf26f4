"""What the tests of packaging files share: do a command's verb and options exist."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedse.cli.app import start

PACKAGING = Path(__file__).parents[2] / "packaging"


def unknown_options(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The options in `words` (group, verb, options) that the verb's own help does not name."""
    group, verb, *rest = words
    capsys.readouterr()
    assert start([group, verb, "--help"]) == 0, f"fedse {group} {verb} is no verb"
    told = capsys.readouterr().out
    assert f"fedse {group} {verb}" in told, f"fedse {group} {verb} is no verb"
    known = set(re.findall(r"--[a-z][a-z-]*", told))
    return {word.partition("=")[0] for word in rest if word.startswith("--")} - known
