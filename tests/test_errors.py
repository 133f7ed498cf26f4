"""What an error about a missing package says."""

import sys

import pytest

from fedse.errors import MachineError, is_installed, require_packages


def test_what_is_installed_is_not_complained_about():
    require_packages("a test", "pytest", "sys", extra="dev")
    assert is_installed("pytest")


def test_only_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xdist", None)
    with pytest.raises(MachineError) as caught:
        require_packages("a test", "pytest", "xdist", "no_such_package", extra="dev")
    told = "a test needs xdist, no_such_package, not installed here (part of fed-se[dev])"
    assert str(caught.value) == told
    assert caught.value.hint == "pip install 'fed-se[dev]'"
