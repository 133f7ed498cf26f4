"""The conformance suite passes what is sound and names what is broken."""

from pathlib import Path
from typing import Any

import pytest

from fedse.envs.conformance.check import CHECKS, CheckReport, check_env
from tests.envs.kept import assert_all_kept

NO_CHILDREN: tuple[int, ...] = ()


@pytest.fixture(autouse=True)
def _broken_envs_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def reported(name: str, hash_seeds: tuple[int, ...] = NO_CHILDREN, **options: Any) -> CheckReport:
    return check_env(f"broken_envs:{name}", options, hash_seeds=hash_seeds)


OURS: list[tuple[str, dict[str, Any]]] = [
    ("maze", {}),
    ("maze", {"prompt": "short", "layouts": "double_t", "split_by": "start"}),
    ("wordle", {"words": "small", "prompt": "short"}),
    ("wordle", {"words": "medium", "hidden": "fixed", "counting": True}),
]


@pytest.mark.parametrize(("name", "options"), OURS)
def test_our_environments_keep_every_promise(name: str, options: dict[str, Any]) -> None:
    assert_all_kept(check_env(name, options))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), OURS)
def test_our_environments_keep_every_promise_on_200_tasks(
    name: str, options: dict[str, Any]
) -> None:
    assert_all_kept(check_env(name, options, tasks=200))


@pytest.mark.slow
def test_the_longest_word_list_keeps_every_promise() -> None:
    assert check_env("wordle", {"words": "full"}, tasks=30).failed == ()


def test_a_sound_environment_of_a_user_passes() -> None:
    assert reported("Sound", hash_seeds=(1, 2)).failed == ()


def test_without_an_expert_the_rest_is_still_checked() -> None:
    report = reported("NoExpert")
    assert report.failed == ()
    assert {check.name for check in report.checks if check.skipped} == {
        "same in another process",
        "refuses steps after done",
        "free asking",
        "good expert",
    }


DEFECTS: list[tuple[str, set[str]]] = [
    ("NoStep", {"interface"}),
    ("CannotBeMade", {"interface"}),
    ("BadTurnCap", {"interface"}),
    ("NoTestTasks", {"stable tasks"}),
    ("RepeatsIds", {"unique ids"}),
    ("OverlappingSplits", {"disjoint splits"}),
    ("StopsEarly", {"playable", "good expert", "any text"}),
    ("AnswersTuples", {"playable", "good expert", "any text"}),
    ("AnswersBytes", {"answers"}),
    ("RewardsNaN", {"finite reward"}),
    ("SucceedsUndone", {"success only with done"}),
    ("LeaksBetweenEpisodes", {"no leak between episodes"}),
    ("LeaksBetweenInstances", {"no leak between instances"}),
    ("RaisesOnInvalid", {"any text"}),
    ("PlaysOnAfterDone", {"refuses steps after done"}),
    ("WrongErrorAfterDone", {"refuses steps after done"}),
    ("BadExpert", {"good expert"}),
    ("Prints", {"quiet"}),
]


@pytest.mark.parametrize(("name", "failed"), DEFECTS)
def test_a_defect_fails_its_check_and_no_other(name: str, failed: set[str]) -> None:
    assert set(reported(name).failed) == failed


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("ShufflesTasks", "stable tasks"),
        ("DoneAtReset", "playable"),
        ("GlobalRandom", "repeatable"),
        ("ExpertMoves", "free asking"),
    ],
)
def test_a_defect_with_consequences_fails_its_check_among_others(name: str, check: str) -> None:
    assert check in reported(name).failed


@pytest.mark.parametrize("name", ["UsesHash", "OrdersSet"])
def test_dependence_on_the_hash_seed_shows_in_another_process(name: str) -> None:
    assert reported(name, hash_seeds=(1, 2)).failed == ("same in another process",)


def test_printing_below_python_is_heard_in_the_child(capfd: pytest.CaptureFixture[str]) -> None:
    assert reported("PrintsBelowPython", hash_seeds=(1,)).failed == ("quiet",)


def test_the_checked_environment_cannot_print_to_our_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reported("Prints")
    assert capsys.readouterr().out == ""


def test_options_that_are_no_plain_values_are_named() -> None:
    report = reported("Sound", callback=print)
    assert report.failed == ("plain options",)


def test_every_failure_says_what_to_do() -> None:
    failed = [check for name, _ in DEFECTS for check in reported(name).checks if not check.ok]
    assert len(failed) >= len(DEFECTS) == 18
    assert all(check.todo and check.detail for check in failed)


def test_every_check_can_fail() -> None:
    """A check no defect trips proves nothing."""
    caught = {name for _, names in DEFECTS for name in names} | {
        "plain options",
        "repeatable",
        "same in another process",
        "free asking",
    }
    assert caught == {name for name, _, _ in CHECKS}
