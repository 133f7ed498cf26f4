"""The games of a run folder are those its adapter played, and only equal games are paired."""

import json
from pathlib import Path

import pytest

from fedse.config.judging import EvalSection
from fedse.config.schema import ClientSection, Config, RolloutSection, RunSection
from fedse.drivers.run import run_local
from fedse.errors import StoreError
from fedse.results.held_out import (
    counts,
    evaluated_round,
    evaluations,
    games,
    outcomes,
    require_same_games,
)
from fedse.stats.rates import Rate, rates
from fedse.store.run import Run as RunFolder
from fedse.testing import open_toy_site, toy_spec
from tests.run_folders import write_card, write_run

WON = {"maze-a": [True, False, True], "wordle-a": [False, False]}


def test_outcomes_are_those_of_the_adapter_asked_for(tmp_path: Path) -> None:
    first = {"maze-a": [False, True, False], "wordle-a": [True, False]}
    run = write_run(tmp_path / "r", WON, first=first)
    assert outcomes(run) == outcomes(run, 2) == WON
    assert outcomes(run, 0) == first
    assert counts(run) == {"maze-a": Rate(2, 3), "wordle-a": Rate(0, 2)}
    assert [game.task for game in games(run)["maze-a"]] == ["maze-0", "maze-1", "maze-2"]


def test_a_driven_run_is_read_as_it_was_counted(tmp_path: Path) -> None:
    """Every evaluated round of a real loop, the last evaluation included."""
    config = Config(
        run=RunSection(name="toy", rounds=3),
        rollout=RolloutSection(episodes=4),
        eval=EvalSection(episodes=12, every=2),
        clients=(ClientSection(name="a", env="fedse.testing:CoinWorld"),
                 ClientSection(name="b", env="fedse.testing:CoinWorld")),
    )  # fmt: skip
    run = RunFolder(tmp_path, config, toy_spec(), clock=lambda: 0.0)
    run_local(run, clock=lambda: 0.0, open_site=open_toy_site)
    write_card(tmp_path, config)
    assert list(evaluations(tmp_path)) == [0, 2, 3]
    for round in (0, 2, 3):
        assert counts(tmp_path, round) == rates(run.evals(round))
        found = outcomes(tmp_path, round)
        assert {c: Rate(sum(won), len(won)) for c, won in found.items()} == counts(tmp_path, round)
    require_same_games(games(tmp_path, 0), games(tmp_path, 3), names=("first", "last"))


def test_an_evaluation_under_way_is_no_evaluation(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", WON)
    log = run / "events.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    under_way = [e for e in lines if e["event"] != "run.finished"]
    log.write_text("".join(json.dumps(e) + "\n" for e in under_way) + '{"event": "run.fin')
    assert evaluated_round(run) == 0
    with pytest.raises(StoreError, match=r"did not evaluate .* after round 2, only after 0"):
        outcomes(run, 2)


def test_nothing_measured(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", WON)
    (run / "events.jsonl").unlink()
    with pytest.raises(StoreError, match="no finished evaluation"):
        outcomes(run)


def test_a_server_has_counts_but_no_games(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", WON, kept=False)
    assert counts(run)["maze-a"] == Rate(2, 3)
    with pytest.raises(StoreError, match="games of maze-a are not on this machine"):
        games(run)
    assert not (run / "clients").exists(), "reading makes nothing"


def test_a_record_that_contradicts_the_report_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", WON)
    log = run / "events.jsonl"
    log.write_text(log.read_text().replace('"played": 3, "won": 2', '"played": 3, "won": 3'))
    with pytest.raises(StoreError, match=r"success in 3 of 3 games .* its buffer has 2 of 3"):
        games(run)


def test_only_the_same_games_are_paired(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", WON), write_run(tmp_path / "b", WON)
    other = write_run(tmp_path / "c", WON, played_with=7)
    fewer = write_run(tmp_path / "d", {"maze-a": [True, False, True]})
    require_same_games(games(a), games(b), names=("a", "b"))
    with pytest.raises(StoreError, match="runs a and c played different held-out games at maze-a"):
        require_same_games(games(a), games(other), names=("a", "c"))
    with pytest.raises(StoreError, match="runs a and d were not both measured by: wordle-a"):
        require_same_games(games(a), games(fewer), names=("a", "d"))
