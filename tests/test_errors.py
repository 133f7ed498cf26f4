"""What errors say about missing packages and about what foreign code raised."""

import sys
from collections.abc import Callable

import pytest

from fedse.errors import (
    INSTALL_TORCH,
    EnvError,
    FedSEError,
    MachineError,
    StoreError,
    boundary,
    install_line,
    is_installed,
    require_all,
    require_packages,
)


def test_what_is_installed_is_not_complained_about():
    require_packages("a test", "pytest", "sys", extra="dev")
    assert is_installed("pytest")


def test_only_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xdist", None)
    with pytest.raises(MachineError) as caught:
        require_packages("a test", "pytest", "xdist", "no_such_package", extra="dev")
    named = "a test needs xdist, no_such_package (part of fed-se[dev])"
    assert str(caught.value) == f"not installed here: {named}"
    assert caught.value.hint == "pip install 'fed-se[dev]'"


def lacking(what: str, package: str, extra: str) -> Callable[[], None]:
    return lambda: require_packages(what, package, extra=extra)


def test_all_that_several_checks_lack_is_named_once_with_one_command():
    first, second = lacking("a", "no_such_a", "one"), lacking("b", "no_such_b", "two")
    with pytest.raises(MachineError) as caught:
        require_all(first, lambda: require_all(second, first), lacking("c", "pytest", "dev"))
    assert str(caught.value) == (
        "not installed here: a needs no_such_a (part of fed-se[one]); "
        "b needs no_such_b (part of fed-se[two])"
    )
    assert caught.value.hint == "pip install 'fed-se[one,two]'"


def test_another_error_of_a_check_is_not_delayed():
    def broken() -> None:
        raise MachineError("no disk")

    with pytest.raises(MachineError, match=r"^no disk$"):
        require_all(lacking("a", "no_such_a", "one"), broken)


def test_one_command_with_torch_brings_everything_without_cuda():
    uv, _, pip = install_line("hf", "models").partition(", or without uv: ")
    assert uv == "uv pip install --torch-backend cpu 'fed-se[hf,models]'"
    assert pip.startswith("pip install --extra-index-url https://")
    assert pip.endswith(" 'fed-se[hf,models]'")
    assert install_line("fed-se-worlds") == "pip install fed-se-worlds"
    both = install_line("fed-se-worlds", "flower", "privacy")
    assert both == "pip install 'fed-se[flower,privacy]' fed-se-worlds"


def said_of(error: Exception, what: str = "write /a/b", kind: type[FedSEError] = StoreError) -> str:
    with pytest.raises(kind) as caught, boundary(kind, what, hint="try c"):
        raise error
    assert caught.value.hint == "try c"
    assert caught.value.__cause__ is error
    return str(caught.value)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "No such file", "/a/b"), "write /a/b: No such file"),
        (FileNotFoundError(2, "No such file", "/a/.b.77"), "write /a/b: No such file"),
        (PermissionError(13, "Denied", "/x/y"), "write /a/b: Denied: '/x/y'"),
        (
            FileNotFoundError(2, "No such file", "words.txt"),
            "write /a/b: No such file: 'words.txt'",
        ),
        (OSError("no number"), "write /a/b: OSError: no number"),
        (KeyError("room"), "write /a/b: KeyError: 'room'"),
    ],
)
def test_what_the_system_says_is_told_without_its_number(error: Exception, said: str):
    assert said_of(error) == said


def test_our_own_errors_pass_as_they_are():
    ours = EnvError("no episode is open", hint="call reset first")
    with pytest.raises(EnvError) as caught, boundary(StoreError, "write /a/b", hint="try c"):
        raise ours
    assert caught.value is ours
    assert caught.value.hint == "call reset first"


def test_torch_can_be_installed_with_and_without_uv():
    uv, _, pip = INSTALL_TORCH.partition(", or without uv: ")
    assert uv.startswith("uv pip install --torch-backend cpu ")
    assert pip.startswith("pip install --extra-index-url https://")
    assert all(line.endswith("'fed-se[hf]'") for line in (uv, pip))
