"""Checks of an environment's options; the error names the option and what it must be."""

from collections.abc import Sequence

from fedse.errors import ConfigError


def wrong_option(env: str, option: str, got: object, expected: str) -> ConfigError:
    """The error to raise for one option of one environment."""
    return ConfigError(
        f"environment {env!r}: option {option} must be {expected}, got {got!r}",
        hint=f"change {option} in this client's options; try it: "
        f"fedse env check {env} --option {option}=VALUE",
    )


def require_one_of(env: str, option: str, got: object, allowed: Sequence[str]) -> None:
    """`got` is one of the allowed values."""
    if got not in allowed:
        raise wrong_option(env, option, got, f"one of {', '.join(allowed)}")


def require_positive(env: str, option: str, got: object) -> None:
    """`got` is a whole number of at least 1."""
    if not isinstance(got, int) or isinstance(got, bool) or got < 1:
        raise wrong_option(env, option, got, "a whole number of at least 1")
