"""Whole runs with toy sites: what the variants remember goes on, also after a kill."""

from pathlib import Path

import pytest

from fedse.config.file import parse_config
from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec

TEXT = """
[run]
rounds = {rounds}
[rollout]
episodes = 6
[eval]
episodes = 0
[aggregate]
type = "{merge}"
"""


def config(merge: str, *, clients: int = 3, rounds: int = 3) -> Config:
    sites = "".join(
        f'[[clients]]\nname = "c{number}"\nenv = "fedse.testing:CoinWorld"\n'
        for number in range(clients)
    )
    return parse_config(TEXT.format(merge=merge, rounds=rounds) + sites, "file")


def finished(path: Path, settings: Config) -> Run:
    run = Run(path, settings, toy_spec(), clock=lambda: 0.0)
    run_local(run, clock=lambda: 0.0, open_site=open_toy_site)
    return run


def digest(path: Path, settings: Config) -> str:
    with finished(path, settings) as run:
        return run.adapter(settings.run.rounds).digest


def test_the_velocity_of_a_round_goes_on_in_the_next(tmp_path: Path):
    """v = 0.9 v + d, and the adapter moves by 0.7 (d + 0.9 v): so much is known without d."""
    with finished(tmp_path, config("nesterov")) as run:
        for index in (2, 3):
            before, after = (run.moments(i)[0].vector.astype(float) for i in (index - 1, index))
            move = run.adapter(index).vector - run.adapter(index - 1).vector
            assert move == pytest.approx(0.7 * (1.9 * after - 0.9 * before), abs=1e-6)


@pytest.mark.parametrize("merge", ["nesterov", "adam", "fedexp", "product"])
def test_a_run_in_parts_ends_where_a_run_in_one_life_does(tmp_path: Path, merge: str):
    end = digest(tmp_path / "whole", config(merge))
    for rounds in (1, 2, 3):
        last = digest(tmp_path / "parts", config(merge, rounds=rounds))
    assert last == end != digest(tmp_path / "mean", config("mean"))


@pytest.mark.parametrize("merge", ["fedexp", "product"])
def test_one_site_alone_merges_to_itself(tmp_path: Path, merge: str):
    alone = digest(tmp_path / "a", config(merge, clients=1))
    assert alone == digest(tmp_path / "b", config("mean", clients=1))
