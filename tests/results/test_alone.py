"""Together against alone: paired by client and game, refused where the games differ."""

from pathlib import Path

import pytest

from fedse.errors import StoreError
from fedse.results.alone import SeedRuns, together_or_alone
from fedse.stats.rates import Rate
from tests.run_folders import write_run

WON = {"desk-a": [True, True, False, True], "desk-b": [True, False, True, True]}


def alone(tmp_path: Path, **options: int) -> dict[str, Path]:
    lost = [True, False, False, False]
    return {c: write_run(tmp_path / c, {c: lost}, **options) for c in WON}  # type: ignore[arg-type]


def test_each_client_is_compared_with_its_own_run(tmp_path: Path):
    found = together_or_alone(SeedRuns(write_run(tmp_path / "shared", WON), alone(tmp_path)))
    assert found.together == {"desk-a": Rate(3, 4), "desk-b": Rate(3, 4)}
    assert found.alone == {"desk-a": Rate(1, 4), "desk-b": Rate(1, 4)}
    assert {c: one.value for c, one in found.difference.groups.items()} == {
        "desk-a": 0.5,
        "desk-b": 0.5,
    }
    assert found.difference.micro.value == 0.5


def test_a_client_the_common_run_does_not_have_is_named(tmp_path: Path):
    shared = write_run(tmp_path / "shared", {"desk-a": WON["desk-a"]})
    with pytest.raises(StoreError, match="did not measure desk-b"):
        together_or_alone(SeedRuns(shared, alone(tmp_path)))
    with pytest.raises(StoreError, match="got none"):
        together_or_alone(SeedRuns(shared, {}))


def test_other_games_are_not_compared(tmp_path: Path):
    shared = write_run(tmp_path / "shared", WON)
    with pytest.raises(StoreError, match="played different held-out games at desk-a"):
        together_or_alone(SeedRuns(shared, alone(tmp_path, played_with=5)))


def test_seeds_are_pooled(tmp_path: Path):
    runs = [
        SeedRuns(
            write_run(tmp_path / f"shared-{seed}", WON, seed=seed),
            alone(tmp_path / str(seed), seed=seed),
        )
        for seed in (0, 1)
    ]
    found = together_or_alone(*runs)
    assert found.together == {"desk-a": Rate(6, 8), "desk-b": Rate(6, 8)}
    assert found.difference.micro.value == 0.5
