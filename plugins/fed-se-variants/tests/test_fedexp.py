"""FedExP: how far the lengths of the updates say to go, on real server_round."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.config.aggregation import AggregateSection
from fedse.config.schema import ClientSection, Config
from fedse.method.rounds import server_round
from fedse.method.site import Answer
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats
from fedse_variants.fedexp import Spread, step_length

SPEC = toy_spec()
CURRENT = toy_adapter(SPEC, 0)
FEDEXP = {"clip": "none", "type": "fedexp", "most": 1e6}


def merged(current: Adapter, votes: Sequence[Adapter], **settings: object) -> Adapter:
    told = answers(votes)
    return server_round(current, told, config(**settings)).adapter


def config(**settings: object) -> Config:
    clients = (ClientSection(name="a", env="coin"),)
    options = {key: settings.pop(key) for key in ("of", "most") if key in settings}
    return Config(clients=clients, aggregate=AggregateSection(options=options, **settings))


def answers(votes: Sequence[Adapter]) -> list[Answer]:
    return [Answer(f"client-{i}", ClientStats(), vote.to_bytes) for i, vote in enumerate(votes)]


def moved(steps: Sequence[Sequence[float]]) -> list[Adapter]:
    """Adapters that lie so far from ZERO in their first numbers."""
    vectors = np.zeros((len(steps), SPEC.size), dtype=np.float32)
    for vector, step in zip(vectors, steps, strict=True):
        vector[: len(step)] = step
    return [Adapter(SPEC, vector) for vector in vectors]


ZERO = moved([()])[0]
# The updates, and the merged one. 4 at right angles: half the number of clients. Two equal: 1/2 is
# less than 1. (8,) and (0, 2): mean (4, 1), squares 64 and 4, so 68 / (2 * 2 * 17) = 1. 16 and -12:
# mean 2, squares 256 and 144, so 400 / (2 * 2 * 4) = 25.
EXACT = {
    "four at right angles": ([(4,), (0, 4), (0, 0, 4), (0, 0, 0, 4)], {}, (2, 2, 2, 2)),
    "all equal": ([(4,), (4,)], {}, (4,)),
    "of two lengths": ([(8,), (0, 2)], {}, (4, 1)),
    "almost opposite": ([(16,), (-12,)], {}, (50,)),
    "no less than the step that is set": ([(4,), (4,)], {"step": 2.0}, (8,)),
    "no more than the bound": ([(16,), (-12,)], {"most": 2.0}, (4,)),
    "after clipping": ([(8,), (0, 2)], {"clip": "median"}, (1, 1)),
}


@pytest.mark.parametrize(("steps", "settings", "result"), EXACT.values(), ids=EXACT)
def test_the_step_is_that_of_the_published_formula(steps, settings, result):
    found = merged(ZERO, moved(steps), **{**FEDEXP, **settings})
    assert found.vector.tolist() == moved([result])[0].vector.tolist()


def test_updates_that_cancel_go_no_further_than_the_bound():
    assert step_length(Spread(1.0, 0.0), least=1.0, most=1e6) == 1e6
    assert step_length(Spread(0.0, 0.0), least=1.0, most=1e6) == 1.0
    assert merged(ZERO, moved([(4,), (-4,)]), **FEDEXP).vector.tolist() == ZERO.vector.tolist()


@given(seed=st.integers(1, 10**6), copies=st.integers(1, 7))
def test_one_client_or_equal_ones_merge_to_themselves(seed: int, copies: int):
    vote = toy_adapter(SPEC, seed)
    assert merged(CURRENT, [vote] * copies, **FEDEXP).digest == vote.digest


seeds = st.lists(st.integers(1, 10**6), min_size=2, max_size=9, unique=True)


@given(seed_list=seeds, order=st.integers(0, 10**6), clip=st.sampled_from(["none", "median"]))
def test_the_order_of_clients_changes_no_bit(seed_list: list[int], order: int, clip: str):
    told = answers([toy_adapter(SPEC, seed) for seed in seed_list])
    settings = config(**{**FEDEXP, "clip": clip})
    shuffled = Random(order).sample(told, len(told))
    one, two = (server_round(CURRENT, x, settings).adapter.digest for x in (told, shuffled))
    assert one == two


@given(seed_list=seeds)
def test_two_sums_and_a_count_are_enough(seed_list: list[int]):
    """So groups of clients can be summed first, and nobody needs to see a single update."""
    votes = [toy_adapter(SPEC, seed).vector.astype(np.float64) for seed in seed_list]
    updates = [vote - CURRENT.vector for vote in votes]
    groups = [updates[::2], updates[1::2]]
    total = sum(np.sum(group, axis=0) for group in groups)
    squares = sum(float(np.sum(np.square(group))) for group in groups)
    mean, count = total / len(updates), len(updates)
    step = max(1.0, squares / (2 * count * float(mean @ mean)))
    found = merged(CURRENT, [toy_adapter(SPEC, seed) for seed in seed_list], **FEDEXP)
    assert found.vector == pytest.approx(CURRENT.vector + step * mean, rel=1e-5, abs=1e-5)


def test_weights_weigh_the_squares_as_they_weigh_the_mean():
    """Of weights 3 and 1 the mean is (6, 0.5), the mean square 48 + 1."""
    told = [
        answer._replace(stats=ClientStats(buffered=lessons))
        for answer, lessons in zip(answers(moved([(8,), (0, 2)])), (3, 1), strict=True)
    ]
    settings = config(**{**FEDEXP, "of": "weighted", "step": 0.001})
    step = 49 / (2 * 36.25)
    found = server_round(ZERO, told, settings).adapter.vector[:2]
    assert found == pytest.approx([6 * step, 0.5 * step])
