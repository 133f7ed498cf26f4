"""The algebra of the merge, on real server_round with toy adapters."""

from collections.abc import Sequence
from functools import partial
from itertools import permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.merge import checked_vote
from fedse.config.aggregation import AggregateSection
from fedse.config.schema import ClientSection, Config
from fedse.method.rounds import server_round
from fedse.method.site import Answer
from fedse.store.files import mapped
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats

SPEC = toy_spec()
CURRENT = toy_adapter(SPEC, 0)
CLIPS = pytest.mark.parametrize("clip", ["none", "median"])

seeds = st.lists(st.integers(1, 10**6), min_size=1, max_size=9, unique=True)


def config(clip: str = "median", max_norm: float = 1e4, **settings: object) -> Config:
    aggregate = AggregateSection(clip=clip, max_norm=max_norm, **settings)
    return Config(clients=(ClientSection(name="a", env="coin"),), aggregate=aggregate)


def answers(adapters: Sequence[Adapter | bytes | None]) -> list[Answer]:
    made = []
    for i, adapter in enumerate(adapters):
        data = adapter.to_bytes() if isinstance(adapter, Adapter) else adapter
        read = None if data is None else (lambda d=data: d)
        made.append(Answer(f"client-{i}", ClientStats(), read))
    return made


def votes(seed_list: Sequence[int]) -> list[Adapter]:
    return [toy_adapter(SPEC, seed, scale=1 + seed % 7) for seed in seed_list]


@CLIPS
@given(seed_list=seeds, order=st.integers(0, 10**6))
def test_the_order_of_clients_changes_no_bit(clip: str, seed_list: list[int], order: int):
    told = answers(votes(seed_list))
    shuffled = Random(order).sample(told, len(told))
    first, second = (server_round(CURRENT, x, config(clip)).adapter for x in (told, shuffled))
    assert first.digest == second.digest


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_numbers_are_summed_in_the_order_of_names(order: tuple[int, ...]):
    """2^60 + 1 - 2^60 is 0 in float64, but 1 where the two large numbers come first."""
    numbers = [2.0**60, 1.0, -(2.0**60)]
    told = answers([Adapter(SPEC, np.full(SPEC.size, n, dtype=np.float32)) for n in numbers])
    shuffled = [told[place] for place in order]
    merged = server_round(CURRENT, shuffled, config("none", max_norm=1e30)).adapter
    assert merged.vector.tolist() == [0.0] * SPEC.size


@CLIPS
@given(seed=st.integers(1, 10**6), copies=st.integers(1, 7))
def test_equal_adapters_merge_to_themselves(clip: str, seed: int, copies: int):
    vote = toy_adapter(SPEC, seed)
    merged = server_round(CURRENT, answers([vote] * copies), config(clip)).adapter
    assert merged.digest == vote.digest


@given(seed_list=seeds)
def test_without_clipping_it_is_the_mean_of_every_number(seed_list: list[int]):
    given_votes = votes(seed_list)
    merged = server_round(CURRENT, answers(given_votes), config("none")).adapter
    exact = np.mean([v.vector.astype(np.float64) for v in given_votes], axis=0)
    np.testing.assert_allclose(merged.vector, exact, rtol=1e-6, atol=1e-7)


ONES = Adapter(SPEC, np.ones(SPEC.size, dtype=np.float32))


def from_ones(step: Sequence[float]) -> Adapter:
    """The adapter that lies `step` away from ONES in its first numbers."""
    vector = np.ones(SPEC.size, dtype=np.float32)
    vector[: len(step)] += np.array(step, dtype=np.float32)
    return Adapter(SPEC, vector)


# Steps of the voters and of the merge, computed by hand; all of them are exact in binary. The bound
# is the lower median of the lengths: 4, 2, 6, 2 and 5 in the first five cases. The upper median
# would be 4, 8, 6, 4 and 10.
CLIPPED = {
    "one voter is the median": ([(4,)], (4,)),
    "two: the longer one is cut to the shorter": ([(8,), (0, 2)], (1, 1)),
    "three: the middle one is the bound": ([(24,), (0, 3), (0, 0, 6)], (2, 1, 2)),
    "four: the second shortest is the bound": (
        [(8,), (0, 1), (0, 0, 4), (0, 0, 0, 2)],
        (0.5, 0.25, 0.5, 0.5),
    ),
    "length is Euclidean, direction stays": ([(6, 8), (0, 0, 5)], (1.5, 2, 2.5)),
    "an update of no length is a vote": ([(0,), (0, 24), (0, 0, 24)], (0, 8, 8)),
    "the bound may be zero": ([(0,), (8,)], (0,)),
}


@pytest.mark.parametrize(("steps", "merged"), CLIPPED.values(), ids=CLIPPED)
def test_the_default_merge_is_the_mean_after_clipping_at_the_lower_median(steps, merged):
    settings = config()
    assert settings.aggregate == AggregateSection(max_norm=1e4)
    found = server_round(ONES, answers([from_ones(step) for step in steps]), settings).adapter
    assert found.vector.tolist() == from_ones(merged).vector.tolist()


@pytest.mark.parametrize(
    ("clip", "step", "merged"),
    [
        ("none", 1.0, (4, 1)),
        ("median", 1.0, (1, 1)),
        ("none", 3.0, (12, 3)),
        ("median", 3.0, (3, 3)),
        ("median", 0.5, (0.5, 0.5)),
    ],
)
def test_the_step_multiplies_the_update_of_the_mean(clip: str, step: float, merged):
    told = answers([from_ones((8,)), from_ones((0, 2))])
    found = server_round(ONES, told, config(clip, step=step)).adapter
    assert found.vector.tolist() == from_ones(merged).vector.tolist()


def test_the_weighted_ablation_clips_first_and_weighs_then():
    told = [
        answer._replace(stats=ClientStats(buffered=lessons))
        for answer, lessons in zip(
            answers([from_ones((8,)), from_ones((0, 2))]), (3, 1), strict=True
        )
    ]
    found = server_round(ONES, told, config("median", type="weighted")).adapter
    assert found.vector.tolist() == from_ones((1.5, 0.5)).vector.tolist()


@given(seed_list=st.lists(st.integers(1, 10**6), min_size=3, max_size=9, unique=True))
def test_clipping_bounds_what_one_client_can_do(seed_list: list[int]):
    honest = votes(seed_list)
    norms = sorted(float(np.linalg.norm(v.vector - CURRENT.vector)) for v in honest)
    giant = Adapter(SPEC, (honest[0].vector * 100).astype(np.float32))
    merged = server_round(CURRENT, answers([giant, *honest[1:]]), config()).adapter
    moved = float(np.linalg.norm(merged.vector - CURRENT.vector))
    assert moved <= norms[-1] * (1 + 1e-6)


def test_nobody_voting_leaves_the_adapter_as_it_is():
    merged = server_round(CURRENT, answers([None, None]), config())
    assert merged.adapter is CURRENT
    assert merged.abstained == ("client-0", "client-1")
    assert merged.voters == ()


def plain_lengths(current: Adapter, told: Sequence[Adapter]) -> list[float]:
    """The lengths of the updates in one sum per block of 8,192 numbers."""
    found = []
    for vote in told:
        step = vote.vector.astype(np.float64) - current.vector
        parts = np.split(step, range(1 << 13, step.size, 1 << 13))
        found.append(sum(float(np.dot(part, part)) for part in parts) ** 0.5)
    return found


def test_an_adapter_of_several_blocks_has_the_bits_of_the_formula():
    spec = toy_spec(rank=8, inputs=80_001, outputs=80_003)
    assert spec.size > 1 << 20
    current, told = toy_adapter(spec, 0), [toy_adapter(spec, n, scale=n) for n in (1, 2, 3)]
    lengths, settings = plain_lengths(current, told), config().aggregate
    found = [checked_vote("a", vote.to_bytes, 1, current, settings).length for vote in told]
    assert found == lengths
    total, bound = np.zeros(spec.size), sorted(lengths)[1]
    for vote, length in zip(told, lengths, strict=True):
        here, there = (one.vector.astype(np.float64) for one in (current, vote))
        total += there if length <= bound else (there - here) * (bound / length) + here
    merged = server_round(current, answers(told), config()).adapter
    assert merged.vector.tobytes() == (total / 3).astype(np.float32).tobytes()


@pytest.mark.parametrize("settings", [{}, {"type": "weighted"}])
@CLIPS
def test_a_reply_is_read_to_be_checked_and_to_be_added(clip: str, settings):
    reads: list[str] = []

    def counted(answer: Answer) -> Answer:
        return answer._replace(read=lambda: reads.append(answer.client) or answer.read())

    told = [counted(answer) for answer in answers(votes([3, 4, 5]))]
    server_round(CURRENT, told, config(clip, **settings))
    assert sorted(reads) == sorted([answer.client for answer in told] * 2)


@CLIPS
def test_replies_in_files_merge_like_replies_in_memory(clip: str, tmp_path):
    told, kept = answers(votes([3, 4, 5])), []
    for answer in told:
        (tmp_path / answer.client).write_bytes(answer.read())
        kept.append(answer._replace(read=partial(mapped, tmp_path / answer.client)))
    (tmp_path / "bad").write_bytes(HOSTILE["NaN"])
    bad = Answer("bad", ClientStats(), partial(mapped, tmp_path / "bad"))
    found, expected = (server_round(CURRENT, x, config(clip)) for x in ([*kept, bad], told))
    assert found.adapter.digest == expected.adapter.digest
    assert [one.client for one in found.excluded] == ["bad"]


@given(seed_list=seeds)
def test_a_client_without_a_success_has_no_vote(seed_list: list[int]):
    told = answers(votes(seed_list))
    silent = Answer("silent", ClientStats(), None)
    with_it, without = (server_round(CURRENT, x, config()) for x in ([*told, silent], told))
    assert with_it.adapter.digest == without.adapter.digest
    assert with_it.abstained == ("silent",)


def _with(position: int, value: float) -> bytes:
    vector = toy_adapter(SPEC, 5).vector.copy()
    vector[position] = value
    return Adapter(SPEC, vector).to_bytes()


OTHER_RANK = toy_adapter(toy_spec(rank=3), 1).to_bytes()
OTHER_SHAPE = toy_adapter(toy_spec(inputs=3, outputs=4), 1).to_bytes()
GOOD = toy_adapter(SPEC, 5).to_bytes()
HOSTILE = {
    "empty": b"",
    "garbage": b"\x80\x04cos\nsystem\n" * 20,
    "truncated": GOOD[:-1],
    "longer": GOOD + b"\0",
    "NaN": _with(0, float("nan")),
    "infinity": _with(13, float("inf")),
    "minus infinity": _with(3, float("-inf")),
    "huge A": _with(0, 1e30),
    "huge B": _with(SPEC.size - 1, 3e38),
    "another rank": OTHER_RANK,
    "another shape of the same size": OTHER_SHAPE,
    "lying header length": b"\xff" * 8 + GOOD[8:],
    "renamed tensor": GOOD.replace(b"lora_A", b"lora_C"),
    "another dtype": GOOD.replace(b"F32", b"I32"),
    "swapped offsets": GOOD.replace(b"[0,32]", b"[1,32]"),
}


@CLIPS
@pytest.mark.parametrize("kind", HOSTILE)
def test_an_offender_is_named_and_leaves_no_trace(kind: str, clip: str):
    honest = answers(votes([3, 4, 5, 6]))
    offender = Answer("offender", ClientStats(), lambda: HOSTILE[kind])
    with_it = server_round(CURRENT, [*honest, offender], config(clip))
    without = server_round(CURRENT, honest, config(clip))
    assert with_it.adapter.digest == without.adapter.digest
    assert [e.client for e in with_it.excluded] == ["offender"]
    assert with_it.excluded[0].reason


def test_the_factors_are_bounded_apart():
    vector = toy_adapter(SPEC, 5).vector.copy()
    part_a = SPEC.slices[SPEC.tensors[0].name]
    vector[part_a] *= 1000
    gauge = Answer("gauge", ClientStats(), lambda: Adapter(SPEC, vector).to_bytes())
    merged = server_round(CURRENT, [*answers(votes([3])), gauge], config(max_norm=100))
    assert "factor A has norm" in merged.excluded[0].reason


@given(seed_list=seeds, lessons=st.lists(st.integers(0, 50), min_size=9, max_size=9))
def test_the_weighted_ablation_is_the_mean_by_lessons(seed_list: list[int], lessons: list[int]):
    adapters, counts = votes(seed_list), [max(1, n) for n in lessons[: len(seed_list)]]
    told = [
        answer._replace(stats=ClientStats(buffered=n))
        for answer, n in zip(answers(adapters), lessons, strict=False)
    ]
    settings = config("none").model_copy(
        update={"aggregate": AggregateSection(type="weighted", clip="none")}
    )
    merged = server_round(CURRENT, told, settings).adapter.vector
    expected = np.average([a.vector.astype(float) for a in adapters], axis=0, weights=counts)
    assert merged == pytest.approx(expected, rel=1e-5, abs=1e-5)
