"""What a run achieved, and which part of it exploration brought."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedse.cli.result import result_json, result_text
from fedse.committed import RoundResult
from fedse.config.schema import ClientSection, Config, RunSection
from fedse.config.training import WarmstartSection
from fedse.results.outcome import RunResult
from fedse.stats.rates import Rate, change
from fedse.types import ClientStats


def result(warm: int, won: list[int], stats: dict[str, ClientStats] | None = None) -> RunResult:
    """A run whose adapter after round i solved won[i] of 20 games."""
    rounds = tuple(
        RoundResult.model_construct(
            index=i, seconds=1.0, bytes_up=0, bytes_down=0, voters=("a",), stats=stats or {}
        )
        for i in range(1, len(won))
    )
    return RunResult(
        path=Path("runs/x"),
        config=Config(
            run=RunSection(rounds=3),
            warmstart=WarmstartSection(rounds=warm),
            clients=(ClientSection(name="a", env="maze"),),
        ),
        rounds=rounds,
        adapters={i: Path(f"adapters/{i}") for i in range(1, len(won))},
        success={i: {"a": Rate(count, 20)} for i, count in enumerate(won)},
        places={"test": {"a": Rate(won[-1], 20)}},
    )


def test_the_warm_start_is_measured_apart():
    told = result(1, [0, 8, 10, 14])
    assert told.overall is not None
    assert told.since_warm_start is not None
    assert told.overall.value == pytest.approx(14 / 20)
    assert told.since_warm_start.value == pytest.approx(6 / 20)
    assert told.since_warm_start.interval == change(Rate(8, 20), Rate(14, 20))


@pytest.mark.parametrize(("warm", "won"), [(0, [0, 8, 10, 14]), (2, [0, 8, 10]), (1, [0])])
def test_without_rounds_after_it_there_is_nothing_to_say(warm: int, won: list[int]):
    assert result(warm, won).since_warm_start is None


def test_a_person_is_told_too():
    text = result_text(result_json(result(1, [0, 8, 10, 14])))
    assert "  all, since the warm start  0.40 -> 0.70  +0.30" in text
    assert "warm" not in result_text(result_json(result(0, [0, 8, 10, 14])))


def test_both_adapters_are_told_side_by_side_where_they_were_measured():
    plain = result_text(result_json(result(1, [0, 8, 10, 14])))
    assert "personal" not in plain
    home = {"home": {"a": Rate(5, 20)}, "home-personal": {"a": Rate(9, 20)}}
    both = replace(result(1, [0, 8, 10, 14]), places={"test": {"a": Rate(14, 20)}, **home})
    told = result_text(result_json(both)).splitlines()
    [head] = [line for line in told if "home, personal" in line]
    row = told[told.index(head) + 1]
    assert head.split("  ")[-1] == "home, personal"
    assert row.split() == ["a", "0.70", "0.25", "0.45"]


def test_an_alarm_of_the_last_round_ends_the_result():
    mute = ClientStats(played=4, succeeded=1, replies=9, unread=9)
    plain = result_json(result(0, [0, 0], {"a": mute}))
    assert [alarm["name"] for alarm in plain["alarms"]] == ["no-action"]
    text = "a: the environment found no action in 9 of 9 replies"
    next_line = "  next     fedse view last --round 1"
    assert result_text(plain).splitlines()[-2:] == [f"ALARM      {text}", next_line]
    assert result_json(result(0, [0, 0]))["alarms"] == []
