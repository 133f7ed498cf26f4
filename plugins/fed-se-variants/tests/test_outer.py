"""Outer optimisers: the published recursions, pure, and the mean where they do nothing."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.merge import Vote
from fedse.aggregate.variants import AGGREGATES, Aggregated, State
from fedse.config.aggregation import AggregateSection
from fedse.config.schema import ClientSection, Config
from fedse.method.rounds import server_round
from fedse.method.site import Answer
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats
from fedse_variants.outer import ADAM, NESTEROV, AdamOptions, OuterOptions
from tests.needs import needs

SPEC = toy_spec()
BOTH = pytest.mark.parametrize("outer", ["nesterov", "adam"])
seeds = st.lists(st.integers(1, 10**6), min_size=1, max_size=5, unique=True)


def settings(outer: str, **options: object) -> AggregateSection:
    return AggregateSection(type=outer, clip="none", options=options)


def outer_step(
    current: Adapter, merged: Adapter, state: State, settings: AggregateSection
) -> Aggregated:
    """One round of the aggregator in which `merged` is the only vote."""
    aggregator = AGGREGATES[settings.type](settings)
    vote = Vote("a", lambda: merged)
    return aggregator.apply(current, [vote], state or aggregator.init(current.spec))


def filled(value: float) -> Adapter:
    return Adapter(SPEC, np.full(SPEC.size, value, dtype=np.float32))


def test_nesterov_is_the_recursion_of_diloco():
    """lr 0.5, m 0.5, updates of 4: v = 4, 6, 7 and moves of 0.5 * (4 + v / 2) = 3, 3.5, 3.75."""
    options = settings("nesterov", lr=0.5, momentum=0.5)
    here, moments, seen = filled(0), (), []
    for _ in range(3):
        there = Adapter(SPEC, here.vector + np.float32(4))
        here, moments = outer_step(here, there, moments, options)
        seen.append((float(here.vector[0]), float(moments[0].vector[0])))
    assert seen == [(3.0, 4.0), (6.5, 6.0), (10.25, 7.0)]
    assert len(moments) == 1


def test_the_defaults_are_those_of_diloco():
    moved, _ = outer_step(filled(0), filled(1), (), settings("nesterov"))
    assert moved.vector[0] == pytest.approx(0.7 * 1.9)


def test_nesterov_is_torchs():
    needs("torch")
    import torch

    options = settings("nesterov")
    theirs = torch.nn.Parameter(torch.from_numpy(toy_adapter(SPEC, 0).vector.copy()))
    optimiser = torch.optim.SGD([theirs], lr=0.7, momentum=0.9, nesterov=True)
    ours, moments = toy_adapter(SPEC, 0), ()
    for seed in (1, 2, 3):
        update = toy_adapter(SPEC, seed).vector
        theirs.grad = -torch.from_numpy(update.copy())
        optimiser.step()
        ours, moments = outer_step(ours, Adapter(SPEC, ours.vector + update), moments, options)
    assert ours.vector == pytest.approx(theirs.detach().numpy(), rel=1e-5, abs=1e-5)


def test_adam_is_the_recursion_of_fedadam():
    """m = 2, 3 and v = 4, 7 for updates of 4; moves of m / (sqrt(v) + 2)."""
    options = settings("adam", lr=1.0, momentum=0.5, decay=0.75, floor=2.0)
    here, moments = outer_step(filled(0), filled(4), (), options)
    assert (here.vector[0], [m.vector[0] for m in moments]) == (0.5, [2.0, 4.0])
    here, moments = outer_step(filled(0), filled(4), moments, options)
    assert [m.vector[0] for m in moments] == [3.0, 7.0]
    assert here.vector[0] == pytest.approx(3 / (7**0.5 + 2))


@given(seed=st.integers(1, 10**6))
def test_without_momentum_at_rate_one_nesterov_is_the_mean(seed: int):
    """So one client, or equal ones, merge to themselves bit for bit."""
    current, vote = toy_adapter(SPEC, 0), toy_adapter(SPEC, seed)
    still = settings("nesterov", lr=1.0, momentum=0.0)
    assert outer_step(current, vote, (), still).adapter.digest == vote.digest


def test_what_it_takes_for_its_gradient_can_be_another_merge():
    """Of four updates at right angles FedExP goes twice as far as their mean."""
    steps = np.zeros((4, SPEC.size), dtype=np.float32)
    np.fill_diagonal(steps, 4)
    votes = [Vote(f"c{i}", lambda i=i: Adapter(SPEC, steps[i])) for i in range(4)]
    still = {"lr": 1.0, "momentum": 0.0}
    for of, moved in (("mean", 1.0), ("weighted", 1.0), ("fedexp", 2.0)):
        aggregator = AGGREGATES["nesterov"](settings("nesterov", of=of, **still))
        found = aggregator.apply(filled(0), votes, aggregator.init(SPEC)).adapter
        assert found.vector[:4].tolist() == [moved] * 4


def test_it_remembers_zeros_before_the_first_round():
    for make, count in ((NESTEROV, 1), (ADAM, 2)):
        state = make(AggregateSection()).init(SPEC)
        assert [m.vector.tolist() for m in state] == [[0.0] * SPEC.size] * count


def test_unknown_options_are_refused():
    for outer, wrong in (("nesterov", {"decay": 0.5}), ("adam", {"momentum": 1.0})):
        with pytest.raises(ValueError, match=rf"aggregate\.options\.{next(iter(wrong))}: "):
            settings(outer, **wrong)
    assert (OuterOptions().lr, AdamOptions().lr) == (0.7, 1e-3)


@BOTH
def test_where_nobody_votes_nothing_moves_and_nothing_is_forgotten(outer: str):
    config = Config(clients=(ClientSection(name="a", env="coin"),), aggregate=settings(outer))
    current = toy_adapter(SPEC, 1)
    first = server_round(current, answers([2, 3]), config)
    silent = [Answer("a", ClientStats(), None)]
    second = server_round(first.adapter, silent, config, moments=first.moments)
    assert second.adapter is first.adapter
    assert second.moments is first.moments
    assert len(first.moments) == {"nesterov": 1, "adam": 2}[outer]


def answers(seed_list: list[int]) -> list[Answer]:
    return [Answer(f"c{s}", ClientStats(), toy_adapter(SPEC, s).to_bytes) for s in seed_list]


@BOTH
@given(seed_list=seeds, order=st.integers(0, 10**6))
def test_the_order_of_clients_changes_no_bit(outer: str, seed_list: list[int], order: int):
    config = Config(clients=(ClientSection(name="a", env="coin"),), aggregate=settings(outer))
    current, told = toy_adapter(SPEC, 0), answers(seed_list)
    shuffled = Random(order).sample(told, len(told))
    first, second = (server_round(current, x, config) for x in (told, shuffled))
    assert [a.digest for a in (first.adapter, *first.moments)] == [
        a.digest for a in (second.adapter, *second.moments)
    ]


@BOTH
@given(seed=st.integers(1, 10**6))
def test_a_number_that_no_vote_moves_stays_bit_for_bit(outer: str, seed: int):
    current = toy_adapter(SPEC, 0)
    vector = toy_adapter(SPEC, seed).vector.copy()
    vector[::2] = current.vector[::2]
    here, moments = outer_step(current, Adapter(SPEC, vector), (), settings(outer))
    here, _ = outer_step(here, here_with(here, vector), moments, settings(outer))
    assert here.vector[::2].tolist() == current.vector[::2].tolist()


def here_with(here: Adapter, vector: np.ndarray) -> Adapter:
    """`vector`, but for the even places, which are as in `here`."""
    mixed = vector.copy()
    mixed[::2] = here.vector[::2]
    return Adapter(SPEC, mixed)
