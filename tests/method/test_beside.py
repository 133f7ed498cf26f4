"""A client's own adapter beside the mean of the others: what it computes and what is trained."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.low_rank import layers_of
from fedse.config.judging import PersonalSection
from fedse.config.schema import ClientSection, Config, RunSection
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.events import silent
from fedse.method.beside import beside, doubled, mean_of_others
from fedse.method.personal import personal_adapter, personal_spec
from fedse.protocol import SiteReply
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats, Fitted, Trajectory

SPEC = toy_spec()
WORLDS = tuple(ClientSection(name=name, env="fedse.testing:CoinWorld") for name in "abc")


def products(adapter: Adapter) -> list[np.ndarray]:
    return [adapter.spec.scaling * (b @ a) for _, b, a in layers_of(adapter)]


@given(st.integers(0, 99), st.integers(0, 99))
def test_its_products_are_the_means_of_the_two(one: int, other: int):
    pair = toy_adapter(SPEC, one), toy_adapter(SPEC, other)
    together = beside(*pair)
    assert together.spec == doubled(SPEC)
    for found, first, second in zip(products(together), *map(products, pair), strict=True):
        assert found == pytest.approx((first + second) / 2, abs=1e-5)


@given(st.lists(st.integers(0, 99), min_size=2, max_size=6))
def test_the_others_of_every_voter_are_all_but_itself(seeds: list[int]):
    votes = [toy_adapter(SPEC, seed) for seed in seeds]
    mean = Adapter(
        SPEC, np.mean([vote.vector for vote in votes], axis=0, dtype=np.float64).astype("f4")
    )
    for place, own in enumerate(votes):
        rest = [vote.vector for i, vote in enumerate(votes) if i != place]
        others = mean_of_others(mean, own, voters=len(votes))
        assert others.vector == pytest.approx(np.mean(rest, axis=0), abs=1e-4)


def test_a_lone_voter_has_no_others():
    own = toy_adapter(SPEC, 1)
    assert mean_of_others(own, own, voters=1).digest == own.digest


def config() -> Config:
    return Config(
        run=RunSection(rounds=3), personal=PersonalSection(steps=2, form="beside"), clients=WORLDS
    )


def test_it_is_trained_from_the_last_vote_and_half_of_it_rests(tmp_path: Path):
    begun: list[tuple[Adapter, Course]] = []

    def fit(
        start: Adapter,
        lessons: Sequence[Trajectory],
        settings: TrainSection,
        seed: int,
        course: Course = Course(),  # noqa: B008
    ) -> Fitted:
        begun.append((start, course))
        return Fitted(start, 0.0, settings.max_steps or 0)

    settings, current, vote = config(), toy_adapter(SPEC, 1), toy_adapter(SPEC, 2)
    site = replace(open_toy_site(settings, "a", tmp_path, clock=lambda: 0.0), fit=fit)
    site.buffer.add([won()], experiment="run")
    for round, adapter in ((1, toy_adapter(SPEC, 3)), (2, vote)):
        site.buffer.outbox.finish("run", round, "r", SiteReply(ClientStats(), adapter.to_bytes()))
    made = personal_adapter(current, site, settings, round=3, emit=silent)
    [(start, course)] = begun
    assert made is not None
    assert made.spec == personal_spec(SPEC, settings)
    assert start.digest == beside(mean_of_others(current, vote, voters=3), vote).digest
    assert course.resting == SPEC.rank


def won() -> Trajectory:
    return Trajectory.model_validate(
        {
            "task": {"env": "coin", "id": "1", "split": "train"},
            "seed": 0,
            "turns": [{"observation": "call it", "action": "heads"}],
            "outcome": "success",
            "reward": 1.0,
            "policy": "expert",
            "round": 1,
        }
    )


def test_before_its_first_vote_both_halves_are_the_global_adapter(tmp_path: Path):
    settings, current = config(), toy_adapter(SPEC, 1)
    site = open_toy_site(settings, "a", tmp_path, clock=lambda: 0.0)
    site.buffer.add([won()], experiment="run")
    made = personal_adapter(current, site, settings, round=1, emit=silent)
    assert made is not None
    assert made.spec.rank == 2 * SPEC.rank
