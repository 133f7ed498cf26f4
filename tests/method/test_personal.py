"""The personal adapter: made from the global one, measured beside it, and kept at the client."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.config.judging import EvalSection, PersonalSection, SplitsSection
from fedse.config.schema import ClientSection, Config, RolloutSection, RunSection
from fedse.config.training import TrainSection
from fedse.events import silent
from fedse.method.evaluate import client_eval, client_validation
from fedse.method.personal import is_due, settings_for
from fedse.method.rounds import client_round
from fedse.method.site import Site
from fedse.site.own_adapters import keep_adapter, kept_adapter
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter

CURRENT = toy_adapter(toy_spec(), 1)
LAST = 4
WORLD = ClientSection(name="a", env="fedse.testing:CoinWorld", options={"tasks": 60})


def config(**personal: int) -> Config:
    return Config(
        run=RunSection(rounds=LAST - 1),
        rollout=RolloutSection(episodes=20),
        splits=SplitsSection(validation=0.2, home=0.2),
        eval=EvalSection(episodes=6, home=5),
        personal=PersonalSection(**personal),
        clients=(WORLD,),
    )


class Kept:
    """A toy site after one round, and what it kept for itself."""

    def __init__(self, home: Path, settings: Config) -> None:
        self.adapters: dict[tuple[str, int], Adapter] = {}
        opened = open_toy_site(settings, "a", home, clock=lambda: 0.0)
        self.site: Site = replace(opened, keep=self.keep)
        self.update = client_round(CURRENT, self.site, settings, round=1, emit=silent)

    def keep(self, name: str, round: int, adapter: Adapter) -> None:
        self.adapters[name, round] = adapter


def test_it_is_measured_beside_the_global_one_in_the_same_games(tmp_path: Path):
    settings = config(steps=8)
    kept = Kept(tmp_path, settings)
    stats = client_eval(CURRENT, kept.site, settings, round=LAST, emit=silent)
    assert (stats.eval_played, stats.personal_played) == (6, 6)
    assert (stats.home_played, stats.personal_home_played) == (5, 5)
    by_record = {
        record: [(game.task, game.seed) for game in kept.site.buffer.held_out("run", LAST, record)]
        for record in ("test", "test-personal", "home", "home-personal")
    }
    assert by_record["test"] == by_record["test-personal"]
    assert by_record["home"] == by_record["home-personal"]
    assert len(by_record["test"]) == 6
    assert set(kept.adapters) == {("global", LAST - 1), ("personal", LAST - 1)}
    assert kept.adapters["global", LAST - 1].digest == CURRENT.digest
    assert kept.adapters["personal", LAST - 1].digest != CURRENT.digest


def test_it_has_no_influence_on_the_vote(tmp_path: Path):
    with_it, without = (
        Kept(tmp_path / "a", config(steps=8, every=1)),
        Kept(tmp_path / "b", config()),
    )
    assert with_it.update.adapter is not None
    assert without.update.adapter is not None
    assert with_it.update.adapter.digest == without.update.adapter.digest


def test_a_round_that_is_done_again_makes_the_personal_adapter_it_made_before(tmp_path: Path):
    """Also when it was killed after what it played had entered the buffer."""
    settings = config(steps=8, every=1)
    kept = Kept(tmp_path, settings)
    before = client_eval(CURRENT, kept.site, settings, round=2, emit=silent)
    made = kept.adapters["personal", 1]
    client_round(CURRENT, kept.site, settings, round=2, emit=silent)
    assert kept.site.buffer.added("run", 2)
    again = client_eval(CURRENT, kept.site, settings, round=2, emit=silent)
    assert kept.adapters["personal", 1].digest == made.digest
    assert again.personal_succeeded == before.personal_succeeded


def test_what_decides_and_what_is_reported_are_other_games_than_those_learned_from(tmp_path: Path):
    settings = config(steps=8).model_copy(
        update={"gate": config().gate.model_copy(update={"episodes": 9})}
    )
    kept = Kept(tmp_path, settings)
    client_eval(CURRENT, kept.site, settings, round=1, emit=silent)
    stats = client_validation(CURRENT, kept.site, settings, round=1)
    assert stats.validation_played == 9
    played = {
        record: {game.task for game in kept.site.buffer.held_out("run", 1, record)}
        for record in ("train", "validation", "home", "test")
    }
    assert all(played.values())
    for name, tasks in played.items():
        for other, others in played.items():
            assert name == other or tasks.isdisjoint(others)


@given(st.integers(1, 300), st.integers(1, 60), st.integers(1, 9))
def test_it_takes_exactly_as_many_steps_as_asked(steps: int, lessons: int, batch: int):
    train = TrainSection(batch=batch)
    settings = settings_for(config(steps=steps).model_copy(update={"train": train}), lessons)
    per_pass = -(-lessons // batch)
    assert settings.max_steps == steps
    assert (settings.epochs - 1) * per_pass < steps <= settings.epochs * per_pass
    assert settings.batch == batch
    assert settings.lr == TrainSection().lr


@pytest.mark.parametrize(
    ("every", "rounds"), [(0, [LAST]), (1, [1, 2, 3, LAST]), (2, [1, 3, LAST])]
)
def test_when_it_is_made(every: int, rounds: list[int]):
    settings = config(steps=1, every=every)
    assert [round for round in range(1, LAST + 1) if is_due(settings, round)] == rounds
    assert not any(is_due(config(every=every), round) for round in range(1, LAST + 1))


def test_a_site_keeps_the_newest_of_each_name(tmp_path: Path):
    spec = toy_spec()
    first, second = toy_adapter(spec, 5), toy_adapter(spec, 6)
    assert kept_adapter(tmp_path, "personal", spec) is None
    keep_adapter(tmp_path, "personal", 3, first)
    keep_adapter(tmp_path, "global", 3, second)
    keep_adapter(tmp_path, "personal", 12, second)
    keep_adapter(tmp_path, "personal", 12, second)
    found = kept_adapter(tmp_path, "personal", spec)
    assert found is not None
    assert (found.round, found.adapter.digest) == (12, second.digest)
    assert len(list((tmp_path / "own-adapters" / "personal").iterdir())) == 1
