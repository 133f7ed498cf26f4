"""A step is the same however it is computed: whole, in pieces, with activations kept or not."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import needs, optional

needs("torch")

import torch
from torch import Tensor

from fedse.adapters.base import adapter_spec, base_path
from fedse.agent.loaded import load_base, prepare_torch
from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import Arc
from fedse.errors import TrainError
from fedse.train.batch import Lesson, learned_tokens, make_batch, make_pieces
from fedse.train.lora import load_adapter, trainer_for
from fedse.train.optimise import Share, accumulate, make_optimizer, take_steps
from fedse.types import Adapter

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))


def adapter() -> Adapter:
    """B is not zero, so every factor has a gradient."""
    generator = torch.Generator().manual_seed(5)
    return Adapter(SPEC, (0.05 * torch.randn(SPEC.size, generator=generator)).numpy())


def ready(**place: object):
    prepare_torch(1)
    model = trainer_for(PATH, SPEC, TrainerSection(**place)).model()
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


def gradient(model, pieces: Sequence[list[Lesson]], of: int) -> tuple[float, Tensor]:
    parameters = [p for p in model.parameters() if p.requires_grad]
    model.zero_grad()
    loss = accumulate(model, pieces, of=of, device="cpu")
    found = torch.cat([p.grad.flatten() for p in parameters])
    model.zero_grad()
    return loss, found


def assert_same(one: tuple[float, Tensor], other: tuple[float, Tensor]) -> None:
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    scale = one[1].abs().max()
    assert scale > 1e-3
    assert (one[1] - other[1]).abs().max() < 1e-5 * scale


@pytest.mark.parametrize("max_tokens", [1, 45, 80])
def test_five_lessons_in_pieces_have_the_gradient_of_all_together(max_tokens: int):
    model, of = ready(), learned_tokens(LESSONS)
    pieces = make_pieces(LESSONS, max_tokens=max_tokens)
    assert len(pieces) > 1
    assert_same(gradient(model, [LESSONS], of), gradient(model, pieces, of))


lessons = st.builds(
    lambda mask, first: Lesson(tuple(first + i for i in range(len(mask))), tuple(mask)),
    st.lists(st.booleans(), min_size=2, max_size=30),
    st.integers(1, 300),
)


@settings(max_examples=20)
@given(
    batch=st.lists(lessons, min_size=1, max_size=6).filter(learned_tokens),
    max_tokens=st.integers(1, 90),
)
def test_a_batch_in_pieces_has_the_gradient_of_the_whole_batch(batch, max_tokens):
    model = ready()
    of = learned_tokens(batch)
    whole = gradient(model, [batch], of)
    assert_same(whole, gradient(model, make_pieces(batch, max_tokens=max_tokens), of))


def test_an_episode_does_not_see_the_others_of_its_batch():
    """The likelihood of its tokens is the same in any company."""
    model = ready()
    first, second, other = LESSONS[0], LESSONS[1], lesson(40, own=(2,), first=77)
    with torch.inference_mode():
        alone = model(input_ids=make_batch([first]).ids_B_T).logits[0]
        for company in ([first, second], [first, other], [second, first]):
            batch = make_batch(company)
            row = company.index(first)
            logits = model(input_ids=batch.ids_B_T, attention_mask=batch.attention_B_T).logits
            assert torch.allclose(logits[row, : len(alone)], alone, atol=1e-4)


def steps(place: TrainerSection, share: Share = Share()) -> tuple[Tensor, list[float]]:  # noqa: B008
    model = ready(precision=place.precision)
    options = TrainSection(lr=2e-3)
    batches = [LESSONS[:3], LESSONS[2:]]
    told = list(take_steps(model, batches, settings=options, place=place, share=share))
    parameters = [p.detach() for p in model.parameters() if p.requires_grad]
    return torch.cat([p.flatten() for p in parameters]), [step.loss for step in told]


def test_the_learning_rate_is_that_of_the_arc():
    model, arc = ready(), Arc(1, 2, 4)
    options = TrainSection(lr=2e-3)
    optimizer = make_optimizer(model, options)
    rates = [
        optimizer.param_groups[0]["lr"]
        for _ in take_steps(
            model,
            [LESSONS[:3]] * 4,
            settings=options,
            place=TrainerSection(),
            arc=arc,
            optimizer=optimizer,
        )
    ]
    # Told after a step, so it is the rate of the next one.
    assert rates == [2e-3 * arc.rate(step, of=4) for step in (1, 2, 3, 4)]


def test_checkpointing_changes_nothing_and_is_off_afterwards():
    kept, kept_losses = steps(TrainerSection())
    again, again_losses = steps(TrainerSection(checkpointing=True))
    assert (kept - again).abs().max() < 1e-6
    assert again_losses == pytest.approx(kept_losses, rel=1e-6)
    assert not ready().is_gradient_checkpointing


def test_attention_is_computed_as_chosen_and_only_in_training():
    usual, losses = steps(TrainerSection())
    before = ready().get_base_model().config._attn_implementation
    assert before != "eager"
    model, used = ready(), []
    place = TrainerSection(attention="eager")
    for _ in take_steps(model, [LESSONS[:3]], settings=TrainSection(), place=place):
        used.append(model.get_base_model().config._attn_implementation)
    assert used == ["eager"]
    assert model.get_base_model().config._attn_implementation == before
    eager, eager_losses = steps(place)
    assert (usual - eager).abs().max() < 1e-5
    assert eager_losses == pytest.approx(losses, rel=1e-5)


def test_an_attention_that_does_not_exist_is_refused_by_name():
    with pytest.raises(TrainError, match=r"trainer\.attention = 'quick'"):
        steps(TrainerSection(attention="quick"))


def test_a_process_whose_share_is_all_there_is_takes_the_same_step():
    """Of two processes the second has no piece; what it adds is nothing."""
    alone, losses = steps(TrainerSection(max_tokens=10_000))
    first, told = steps(TrainerSection(max_tokens=10_000), Share(0, 2, lambda found: found + 0))
    assert torch.equal(alone, first)
    assert told == pytest.approx(losses, rel=1e-6)
    _, nothing = steps(TrainerSection(max_tokens=10_000), Share(1, 2))
    assert nothing == [0.0, 0.0]


def test_the_adapter_is_trained_in_float32_on_a_base_in_bfloat16():
    model = ready(precision="bfloat16")
    kinds = {(p.requires_grad, p.dtype) for p in model.parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    rounded, losses = steps(TrainerSection(precision="bfloat16"))
    exact, exact_losses = steps(TrainerSection())
    assert losses == pytest.approx(exact_losses, rel=0.05)
    assert 0 < (rounded - exact).abs().max() < 0.02


@optional("bitsandbytes")
def test_the_adapter_is_trained_in_float32_on_a_base_in_4_bits():
    model = ready(precision="4bit")
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}
    assert torch.uint8 in {p.dtype for p in model.parameters()}
    _, losses = steps(TrainerSection(precision="4bit"))
    _, exact = steps(TrainerSection())
    assert losses == pytest.approx(exact, rel=0.2)


def test_after_a_loss_that_is_not_finite_others_can_generate():
    model = ready()
    with torch.no_grad():
        next(p for p in model.parameters() if p.requires_grad).fill_(float("inf"))
    with pytest.raises(TrainError, match="not finite"):
        list(take_steps(model, [LESSONS], settings=TrainSection(), place=TrainerSection()))
    assert not load_base(PATH).model.training
    assert all(p.grad is None for p in model.parameters())
