"""Each alarm is raised by the numbers it is about, and by no others."""

from typing import Any

import pytest

from fedse.committed import Exclusion, RoundResult
from fedse.config.privacy import PrivacySection
from fedse.config.schema import Config
from fedse.results.alarms import (
    client_alarms,
    clip_alarms,
    round_alarms,
    rounds_text,
    standing_alarms,
)
from fedse.types import ClientStats

WELL = ClientStats(played=8, succeeded=3, replies=20, unread=4, cut=2, truncated=1, buffered=5)


def config(*, base: str = "smollm2-135m", env: str = "env:MyEnv") -> Config:
    members = [{"name": name, "env": env} for name in ("a", "b")]
    settings: dict[str, Any] = {"model": {"base": base}, "clients": members}
    return Config.model_validate(settings)


def round_of(stats: dict[str, ClientStats], *, index: int = 1, **who: Any) -> RoundResult:
    kinds = {"voters": tuple(stats)} | who
    sizes = {"bytes_down": 0, "bytes_up": 0, "seconds": 1.0}
    return RoundResult(index=index, before="0", after="0", stats=stats, **sizes, **kinds)


def names(stats: ClientStats) -> list[str]:
    return [alarm.name for alarm in client_alarms({"a": stats}, config(), round=1)]


def test_a_round_that_goes_well_raises_none():
    assert round_alarms(round_of({"a": WELL, "b": WELL}), config()) == []
    assert names(ClientStats(eval_played=8)) == []


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("context-full", {"truncated": 4}),
        ("replies-cut", {"cut": 18}),
        ("no-action", {"unread": 18}),
        ("nothing-solved", {"succeeded": 0}),
    ],
)
def test_each_begins_exactly_where_it_is_said_to(name: str, least: dict[str, int]):
    assert names(WELL.model_copy(update=least)) == [name]
    (key, number) = next(iter(least.items()))
    nearly = number + 1 if key == "succeeded" else number - 1
    assert names(WELL.model_copy(update={key: nearly})) == []


def test_too_few_tasks_to_compare_games_of():
    """Only where the loss compares games of a task; too much alike is another matter."""
    told = WELL.model_copy(update={"groups": 20, "mixed": 2, "distinct": 0.1})
    assert names(told) == []
    (few,) = client_alarms({"a": told.model_copy(update={"mixed": 1})}, config(), round=3)
    assert (few.name, few.next) == ("few-groups", "fedse view last --round 3")
    assert few.text.startswith("a: in 1 of 20 tasks played several times the rewards differed")
    assert names(told.model_copy(update={"distinct": 0.09})) == ["all-alike"]
    assert names(WELL.model_copy(update={"distinct": 0.0})) == []


def test_they_say_how_many_of_whom_and_what_to_do():
    mute = WELL.model_copy(update={"unread": 20, "succeeded": 0, "buffered": 0})
    (alone, unsolved) = client_alarms({"a": WELL, "b": mute}, config(), round=2)
    assert alone.text == "b: the environment found no action in 20 of 20 replies"
    assert alone.next == "fedse view last --round 2"
    assert unsolved.text == "b: none of 8 games succeeded; there is nothing to learn from"
    (both, _) = client_alarms({"a": mute, "b": mute}, config(), round=2, run="HOME")
    assert both.text.startswith("every client: the environment found no action in 40 of 40")
    assert both.next == "fedse view HOME --round 2"


def test_settings_that_cut_are_named_with_twice_their_value():
    cut = WELL.model_copy(update={"cut": 20, "truncated": 8})
    full, short = client_alarms({"a": cut}, config(), round=1)
    assert full.next == "fedse run CONFIG --set rollout.context=8192"
    assert short.next == "fedse run CONFIG --set rollout.new_tokens=128"


@pytest.mark.parametrize(
    ("base", "env", "foreign"),
    [
        ("tiny", "env:MyEnv", True),
        ("tiny", "textcraft", True),
        ("tiny-five", "textcraft", False),
        ("tiny", "maze", False),
        ("smollm2-135m", "env:MyEnv", False),
    ],
)
def test_a_shipped_base_in_a_world_of_your_own_is_named_as_the_cause(
    base: str, env: str, foreign: bool
):
    mute = WELL.model_copy(update={"unread": 20})
    (alarm,) = client_alarms({"a": mute}, config(base=base, env=env), round=1)
    assert ("knows only the words of" in alarm.text) == foreign
    assert alarm.next.startswith("fedse model get" if foreign else "fedse view")


def test_a_round_without_votes_says_who_is_missing():
    nothing = {"a": WELL, "b": WELL}
    (alarm,) = round_alarms(round_of(nothing, voters=(), abstained=("a", "b")), config())
    assert alarm.text.startswith("nobody voted: no client has an episode to learn from")
    assert alarm.next == "fedse run CONFIG --set buffer.demonstrations=16"
    out = (Exclusion(client="a", kind="rejected", reason="x"),)
    (alarm,) = round_alarms(round_of({}, voters=(), excluded=out, absent=("b",)), config())
    assert alarm.text == "nobody voted (1 excluded, 1 absent), so the adapter is unchanged"


def test_over_a_run_each_is_told_once_with_its_rounds():
    bad = WELL.model_copy(update={"succeeded": 0})
    rounds = [round_of({"a": stats}, index=i) for i, stats in enumerate((bad, bad, WELL, bad), 1)]
    (standing,) = standing_alarms(rounds, config())
    assert standing.rounds == (1, 2, 4)
    assert rounds_text(standing.rounds) == "rounds 1, 2, 4"
    assert [rounds_text(r) for r in ([3], [2, 3, 4])] == ["round 3", "rounds 2 to 4"]


def test_noise_for_gradients_that_no_unit_has_is_told_and_what_to_do():
    shorter = config().model_copy(update={"privacy": PrivacySection(epsilon=8, clip=0.5)})
    (told,) = clip_alarms(0.42, shorter, "a")
    assert told.name == "never-clipped"
    assert told.text.startswith(
        "a: no episode of this round has a gradient as long as privacy.clip = 0.5, the longest"
    )
    assert clip_alarms(0.5, shorter, "a") == clip_alarms(7.0, shorter, "a") == []
    assert clip_alarms(0.0, shorter, "a") == [], "nothing was learned from"
