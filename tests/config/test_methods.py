"""Baselines and ablations are settings of the one loop, and nothing else."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedse.config.judging import EvalSection
from fedse.config.methods import METHODS, apply_method, one_experiment, with_settings
from fedse.config.schema import (
    AggregateSection,
    BufferSection,
    ClientSection,
    Config,
    RolloutSection,
)
from fedse.config.schema import RunSection as RunSection
from fedse.drivers.pooled import Pooled
from fedse.drivers.run import run_local
from fedse.errors import ConfigError
from fedse.events import Observer
from fedse.store.buffer import Buffer
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from fedse.train.loss import Loss
from tests.toys.aggregators import ONE

COIN = "fedse.testing:CoinWorld"
CONFIG = Config(
    run=RunSection(rounds=3),
    rollout=RolloutSection(episodes=6),
    eval=EvalSection(episodes=4),
    clients=tuple(ClientSection(name=f"c{i}", env=COIN) for i in range(3)),
)


def run_of(path: Path, config: Config, *observers: Observer) -> Run:
    run = Run(path, config, toy_spec(), clock=lambda: 0.0, observers=observers)
    run_local(run, clock=lambda: 0.0, open_site=open_toy_site)
    return run


@pytest.mark.parametrize("name", METHODS)
def test_a_method_changes_its_own_settings_only(name: str):
    made = apply_method(CONFIG, name)
    assert len(made) == (3 if METHODS[name].alone else 1)
    for config in made:
        same = config.model_copy(update={"run": CONFIG.run, "clients": CONFIG.clients})
        assert same == with_settings(CONFIG, METHODS[name].settings)
        assert config.run.seed == CONFIG.run.seed


def test_where_nothing_is_averaged_nothing_is_stepped_beyond():
    far = with_settings(CONFIG, {"aggregate.step": 3.0, "aggregate.type": ONE})
    steps = {
        name: {(c.aggregate.step, c.aggregate.type) for c in apply_method(far, name)}
        for name in METHODS
    }
    alone = {"local-static", "local-evolve", "central-static", "central-evolve"}
    assert alone < set(METHODS)
    still, moving = (1.0, "mean"), (3.0, ONE)
    assert steps.pop("weighted") == {(3.0, "weighted")}
    assert steps == {name: {still if name in alone else moving} for name in steps}


def test_alone_means_one_experiment_per_client():
    clients = [config.clients for config in apply_method(CONFIG, "local-evolve")]
    assert clients == [(client,) for client in CONFIG.clients]
    assert one_experiment(CONFIG, "local-evolve", "c1").clients == (CONFIG.client("c1"),)
    with pytest.raises(ConfigError, match="3 experiments"):
        one_experiment(CONFIG, "local-evolve", None)
    with pytest.raises(ConfigError, match="no method 'fedsee'") as error:
        one_experiment(CONFIG, "fedsee", None)
    assert "fed-se" in error.value.hint


def test_without_exploration_nothing_is_played_and_a_warm_up_only_delays_it(tmp_path: Path):
    demonstrated = {"buffer.demonstrations": 4}
    static = with_settings(CONFIG, {"rollout.episodes": 0, **demonstrated})
    later = with_settings(CONFIG, {"warmstart.rounds": 2, **demonstrated})
    played = [
        [s.played for r in run_of(tmp_path / n, c).results() for s in r.stats.values()]
        for n, c in (("a", static), ("b", later))
    ]
    assert played == [[0] * 9, [0] * 6 + [6] * 3]


def test_a_warm_start_trains_by_its_own_settings_and_only_before_exploration():
    changes = {"warmstart.rounds": 2, "warmstart.lr": 0.5, "warmstart.steps": 7}
    config = with_settings(CONFIG, changes)
    warm = config.train.model_copy(update={"lr": 0.5, "epochs": None, "steps": 7})
    assert [config.train_in(round) for round in (1, 2, 3)] == [warm, warm, config.train]
    assert CONFIG.train_in(1) == CONFIG.train


def test_pooled_clients_learn_one_lesson_from_everything(tmp_path: Path):
    run = run_of(tmp_path, with_settings(CONFIG, {"buffer.pooled": True}))
    results = list(run.results())
    assert [sorted(result.stats) for result in results] == [["c0", "c1", "c2"]] * 3
    for result in results:
        stats = result.stats.values()
        assert {s.steps for s in stats} == {sum(s.buffered for s in stats)}
        assert result.drift is not None
        assert result.drift.cosine == pytest.approx(dict.fromkeys(result.stats, 1.0))


@pytest.mark.parametrize("length", [{"train.steps": 7}, {"train.max_steps": 7}])
def test_who_learns_for_all_takes_as_many_steps_as_all(length, tmp_path: Path):
    config = with_settings(CONFIG, {"buffer.pooled": True, **length})
    pooled = Pooled(Run(tmp_path, config, toy_spec(), clock=lambda: 0.0), time.time, open_toy_site)
    settings = pooled.for_all.train_in(1)
    assert (settings.steps or settings.max_steps) == 7 * len(CONFIG.clients)
    assert (settings.epochs is None) == ("train.steps" in length)


def test_who_learns_for_all_keeps_the_moments_and_a_round_done_again_begins_alike(tmp_path: Path):
    fresh = with_settings(CONFIG, {"buffer.pooled": True})
    config = with_settings(fresh, {"train.optimizer": "kept"})
    whole, plain = run_of(tmp_path / "whole", config), run_of(tmp_path / "plain", fresh)
    final = whole.adapter(3).digest
    assert final != plain.adapter(3).digest
    assert sorted(p.name for p in (tmp_path / "whole" / "moments").iterdir()) == [
        "2.safetensors",
        "3.safetensors",
    ]
    assert not (tmp_path / "plain" / "moments").exists()

    def stop(event: str, facts: Mapping[str, object]) -> None:
        if event == "commit.started" and facts["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_of(tmp_path / "stopped", config, stop)
    assert (tmp_path / "stopped" / "moments" / "3.safetensors").exists()
    assert run_of(tmp_path / "stopped", config).adapter(3).digest == final


class HalfFailures(Loss):
    """Learns from one failure for two lessons."""

    failures = 0.5


def test_pooled_clients_learn_from_everybodys_failures_too(tmp_path: Path):
    options = {"buffer.pooled": True, "train.loss": f"{__name__}:HalfFailures"}
    run = run_of(tmp_path, with_settings(CONFIG, options))
    last = list(run.results())[-1].stats.values()
    lessons, lost = sum(s.buffered for s in last), 0
    for client in (c.name for c in CONFIG.clients):
        buffer = Buffer(tmp_path / "clients" / client / "buffer.db")
        kept = len(list(buffer.lessons("run", 3)))
        lost += len(buffer.failures("run", 3, most=kept // 2))
        buffer.close()
    assert lost
    assert {s.steps for s in last} == {lessons + lost}


def test_a_part_is_disjoint_and_the_parts_are_everything(tmp_path: Path):
    parts = [
        open_toy_site(
            CONFIG.model_copy(
                update={"clients": (ClientSection(name="c", env=COIN, part=(k, 3)),)}
            ),
            "c",
            tmp_path / str(k),
            clock=lambda: 0.0,
        )
        for k in (1, 2, 3)
    ]
    own = [{task.id for task in site.tasks("train")} for site in parts]
    assert sum(map(len, own)) == len(set.union(*own)) == 8
    assert len({tuple(t.id for t in site.tasks("test")) for site in parts}) == 1
    with pytest.raises(ValueError, match="k <= n"):
        Config(clients=(ClientSection(name="c", env=COIN, part=(4, 3)),))


def test_weights_follow_the_buffers_and_a_step_goes_beyond(tmp_path: Path):
    plain, far = (
        run_of(
            tmp_path / str(step),
            CONFIG.model_copy(
                update={
                    "run": CONFIG.run.model_copy(update={"rounds": 1}),
                    "aggregate": AggregateSection(step=step, clip="none"),
                    "buffer": BufferSection(demonstrations=2),
                }
            ),
        )
        for step in (1.0, 2.0)
    )
    start = plain.adapter(0).vector
    assert far.adapter(1).vector - start == pytest.approx(
        2 * (plain.adapter(1).vector - start), abs=1e-6
    )


def test_a_newcomer_measures_what_each_site_learned_alone():
    """It joins after the last round, so it learns in none; as a site alone it learns in all."""
    late = CONFIG.clients[-1].model_copy(update={"joins": CONFIG.run.rounds + 1})
    config = CONFIG.model_copy(update={"clients": (*CONFIG.clients[:-1], late)})
    lone = [made.clients for made in apply_method(config, "local-evolve")]
    assert lone == [(client, late) for client in CONFIG.clients[:-1]]
    first = CONFIG.clients[0]
    assert one_experiment(config, "local-evolve", first.name).clients == (first, late)
    assert one_experiment(config, "local-evolve", late.name).clients == (CONFIG.clients[-1],)
