"""A step with noise: what one unit can change in it; without noise it is the plain step."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import needs

needs("torch")

import numpy as np
import torch
from torch import Tensor

from fedse.adapters.base import adapter_spec, base_path
from fedse.agent.loaded import prepare_torch
from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import Course, PrivateCourse
from fedse.errors import TrainError
from fedse.train.batch import Lesson, learned_tokens, make_batch
from fedse.train.lora import load_adapter, trainer_for
from fedse.train.optimise import accumulate, batch_loss, trainable
from fedse.train.private_steps import normals, private_steps, sampled, uniforms
from fedse.train.unit_gradients import clipped_sum, longest_of, shortened, unit_gradients
from fedse.types import Adapter, Fitted

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))
PLACE = TrainerSection()
SECRET = bytes(range(32))
HUGE = 1e9


def adapter() -> Adapter:
    """B is not zero, so every factor has a gradient."""
    generator = torch.Generator().manual_seed(5)
    return Adapter(SPEC, (0.05 * torch.randn(SPEC.size, generator=generator)).numpy())


def ready():
    prepare_torch(1)
    model = trainer_for(PATH, SPEC, PLACE).model()
    load_adapter(model, adapter())
    return model


def lesson(length: int, *, own: Sequence[int], first: int = 7) -> Lesson:
    return Lesson(
        tuple(first + 3 * place % 400 for place in range(length)),
        tuple(place in own for place in range(length)),
    )


LESSONS = [
    lesson(12, own=(3, 4, 11)),
    lesson(40, own=(2,), first=9),
    lesson(25, own=range(20, 25), first=30),
    lesson(18, own=(), first=30),
    lesson(33, own=range(5, 30), first=2),
]
UNITS = [[LESSONS[0], LESSONS[3]], [LESSONS[1]], [LESSONS[2], LESSONS[4], LESSONS[2]], [LESSONS[3]]]


def exact(model, units: Sequence[Sequence[Lesson]], clip: float) -> Tensor:
    """The slow way: one episode after another, each with a backward pass of its own."""
    parameters = trainable(model)
    total = torch.zeros(sum(p.numel() for p in parameters), dtype=torch.float64)
    for unit in units:
        model.zero_grad()
        for episode in unit:
            if learned_tokens([episode]):
                batch_loss(model, make_batch([episode])).backward()
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        own = torch.cat([part.flatten() for part in parts]).double()
        total += own * min(1.0, clip / max(float(own.norm()), 1e-30))
    model.zero_grad()
    return total


def assert_close(one: Tensor, other: Tensor) -> None:
    scale = float(other.abs().max())
    assert scale > 1e-4
    assert float((one - other).abs().max()) < 2e-5 * scale


@pytest.mark.parametrize("clip", [HUGE, 1.0, 0.01])
@pytest.mark.parametrize("max_tokens", [None, 45])
def test_the_fast_way_is_the_slow_one(clip: float, max_tokens: int | None):
    model = ready()
    place = TrainerSection(max_tokens=max_tokens)
    total, loss, _ = clipped_sum(model, UNITS, place, clip=clip)
    assert_close(total, exact(model, UNITS, clip))
    assert loss > 0
    assert all(p.grad is None for p in trainable(model))


def test_activations_that_are_computed_again_change_nothing():
    model = ready()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    try:
        again, *_ = clipped_sum(model, UNITS, PLACE, clip=1.0)
    finally:
        model.eval()
        model.gradient_checkpointing_disable()
    assert_close(again, clipped_sum(model, UNITS, PLACE, clip=1.0)[0])


def test_without_clipping_the_sum_over_all_units_is_the_plain_gradient():
    """Where all episodes have as many tokens of the agent, so that both means are the same."""
    model = ready()
    alike = [lesson(20 + i, own=(3, 4, 9), first=5 + i) for i in range(4)]
    accumulate(model, [alike], of=learned_tokens(alike), device="cpu")
    plain = torch.cat([p.grad.flatten() for p in trainable(model)]).double()
    model.zero_grad()
    total, *_ = clipped_sum(model, [alike[:1], alike[1:3], alike[3:]], PLACE, clip=HUGE)
    assert_close(total / 4, plain)


def test_a_factor_that_rests_has_no_part_in_the_norm():
    model = ready()
    for name, parameter in model.named_parameters():
        if ".lora_A." in name:
            parameter.requires_grad_(False)
    try:
        total, *_ = clipped_sum(model, UNITS, PLACE, clip=0.5)
        assert_close(total, exact(model, UNITS, 0.5))
    finally:
        for name, parameter in model.named_parameters():
            if ".lora_A." in name:
                parameter.requires_grad_(True)


numbers = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(
    rows=st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5),
    clip=st.floats(1e-3, 1e3),
)
def test_no_unit_counts_for_more_than_the_clip(rows: list[list[float]], clip: float):
    found = shortened(torch.tensor(rows, dtype=torch.float32), clip)
    assert bool(torch.isfinite(found).all())
    assert float(found.norm(dim=1).max()) <= clip * (1 + 1e-12)


@given(rows=st.lists(st.lists(numbers, min_size=3, max_size=3), max_size=5))
def test_the_longest_is_that_of_the_finite_ones_whatever_the_clip(rows: list[list[float]]):
    found = longest_of(torch.tensor(rows, dtype=torch.float32).reshape(-1, 3))
    finite = [math.hypot(*row) for row in rows if all(map(math.isfinite, row))]
    assert found == pytest.approx(max(finite, default=0.0))


def test_how_long_gradients_were_is_told_before_they_are_shortened():
    model = ready()
    together = clipped_sum(model, UNITS, PLACE, clip=1e-3)
    slow = [float(exact(model, [unit], HUGE).norm()) for unit in UNITS]
    assert together.longest == pytest.approx(max(slow), rel=1e-4)
    assert clipped_sum(model, [], PLACE, clip=1.0).longest == 0


def test_a_short_gradient_stays_as_it_is_and_a_long_one_keeps_its_direction():
    short, long = [0.3, 0.4], [30.0, 40.0]
    assert shortened(torch.tensor([short, long]), 0.5).tolist() == [
        pytest.approx(short),
        pytest.approx(short),
    ]


lessons = st.builds(
    lambda mask, first: Lesson(tuple(first + i for i in range(len(mask))), tuple(mask)),
    st.lists(st.booleans(), min_size=2, max_size=20),
    st.integers(1, 300),
)


@settings(max_examples=15)
@given(
    units=st.lists(st.lists(lessons, min_size=1, max_size=3), min_size=1, max_size=4),
    clip=st.floats(1e-3, 10),
)
def test_a_unit_more_or_less_changes_the_sum_by_no_more_than_the_clip(units, clip):
    model = ready()
    all_of_them, one_less = (
        clipped_sum(model, given, PLACE, clip=clip).total for given in (units, units[1:])
    )
    # The bits of a gradient may depend on who is in the same batch.
    assert float((all_of_them - one_less).norm()) <= clip * (1 + 1e-4)


def test_what_is_not_a_linear_layer_is_refused():
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4))
    with pytest.raises(TrainError, match="0 is Embedding"):
        unit_gradients(model, UNITS, PLACE)


def course(**changes: object) -> PrivateCourse:
    base = PrivateCourse(
        units=tuple((place,) for place in range(len(LESSONS))),
        rate=0.5,
        steps=4,
        clip=1.0,
        noise=1.0,
        secret=SECRET,
    )
    return base._replace(**changes)


def fitted(**changes: object) -> np.ndarray:
    return fit(**changes).adapter.vector


def fit(**changes: object) -> Fitted:
    return trainer_for(PATH, SPEC, PLACE).fit(
        adapter(),
        LESSONS,
        settings=TrainSection(lr=1e-3),
        context=100,
        seed=1,
        course=Course(private=course(**changes)),
    )


def test_the_same_secret_gives_the_same_bits_and_another_one_others():
    assert fitted().tobytes() == fitted().tobytes()
    assert fitted().tobytes() != fitted(secret=bytes(32)).tobytes()


def test_the_seed_of_the_run_says_nothing_about_the_noise():
    """Two sites with the same public seed, lessons and settings, and secrets of their own."""
    one, other = (fitted(secret=secret, noise=5.0) for secret in (SECRET, bytes(32)))
    moved = np.abs(one - adapter().vector) > 0
    assert moved.mean() > 0.99
    assert np.corrcoef(one - adapter().vector, other - adapter().vector)[0, 1] < 0.2


def test_there_are_as_many_steps_as_planned_even_without_a_unit():
    trainer = trainer_for(PATH, SPEC, PLACE)
    made = trainer.fit(
        adapter(),
        [],
        settings=TrainSection(),
        context=100,
        seed=1,
        course=Course(private=course(units=())),
    )
    assert made.steps == 4
    assert made.tokens == 0
    assert made.longest == 0
    assert made.adapter.digest != adapter().digest


def test_the_longest_gradient_of_all_steps_is_known():
    """All units, and steps of almost no length, so that every step has the same gradients."""
    slow = [float(exact(ready(), [[one]], HUGE).norm()) for one in LESSONS]
    made = fit(rate=1.0, noise=1e-9, clip=1e-9)
    assert made.longest == pytest.approx(max(slow), rel=0.2)


def test_several_processes_are_refused():
    trainer = trainer_for(PATH, SPEC, TrainerSection(processes=2))
    with pytest.raises(TrainError, match="takes one process"):
        trainer.fit(
            adapter(),
            LESSONS,
            settings=TrainSection(),
            context=100,
            seed=1,
            course=Course(private=course()),
        )


def test_a_step_without_noise_of_all_units_follows_the_clipped_gradient():
    """AdamW's first step is the sign of the gradient times the rate."""
    model = ready()
    expected = exact(model, [[one] for one in LESSONS], 1.0)
    private = course(rate=1.0, steps=1, noise=0.0)
    options = TrainSection(lr=1e-3)
    before = torch.cat([p.detach().flatten() for p in trainable(model)])
    optimizer = torch.optim.SGD(trainable(model), lr=1.0)
    list(private_steps(model, LESSONS, private, options, PLACE, Course().arc, optimizer))
    after = torch.cat([p.detach().flatten() for p in trainable(model)])
    assert_close((before - after).double() * options.batch, expected)


def test_each_unit_is_drawn_by_itself_at_the_rate():
    many = course(units=((0,),) * 2000, rate=0.1)
    chosen = [set(sampled(many, step)) for step in range(20)]
    total = sum(map(len, chosen))
    assert abs(total - 4000) < 5 * math.sqrt(40000 * 0.1 * 0.9)
    # Independent steps: two of them share one unit in a hundred.
    shared = sum(len(a & b) for a, b in pairwise(chosen))
    assert abs(shared - 19 * 20) < 5 * math.sqrt(19 * 20)
    # The draw of a unit does not depend on how many others there are.
    fewer = many._replace(units=many.units[:500])
    assert set(sampled(fewer, 3)) == {unit for unit in chosen[3] if unit < 500}


def test_noise_is_standard_normal_and_new_in_every_step():
    drawn = normals(SECRET, 0, 200_000).numpy()
    assert abs(drawn.mean()) < 5 / math.sqrt(len(drawn))
    assert abs(drawn.std() - 1) < 5 / math.sqrt(2 * len(drawn))
    assert abs((np.abs(drawn) < 1.959964).mean() - 0.95) < 5 * math.sqrt(0.0475 / len(drawn))
    assert abs(np.corrcoef(drawn, normals(SECRET, 1, 200_000).numpy())[0, 1]) < 0.02
    assert np.isfinite(drawn).all()


def test_numbers_are_the_same_whatever_follows_them():
    few, many = uniforms(SECRET, "noise", 7, 10), uniforms(SECRET, "noise", 7, (1 << 20) + 10)
    assert few.tolist() == many[:10].tolist()
    assert set(few.tolist()).isdisjoint(many[1 << 20 :].tolist())
    assert set(few.tolist()).isdisjoint(uniforms(SECRET, "sample", 7, 10).tolist())
