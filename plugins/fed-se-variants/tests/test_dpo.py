"""DPO: TRL's loss on the same log-probabilities, pairs of one task, one gradient for all pieces."""

from collections import defaultdict
from math import exp, log
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.needs import needs, optional

needs("torch")

import torch
from tiny_fits import PATH, SPEC, adapter, assert_same, gradient_of, ready
from torch import Tensor

from fedse.config.hardware import TrainerSection
from fedse.config.schema import BufferSection, ClientSection, Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.errors import TrainError
from fedse.train.batch import Lesson, LessonOrigin, make_batch, make_pieces
from fedse.train.log_probabilities import episode_chances
from fedse.train.lora import trainer_for
from fedse.train.loss import FitContext
from fedse.train.optimise import Share, batch_loss
from fedse_variants.dpo import DpoOptions
from fedse_variants.dpo_loss import Paired, dpo, dpo_losses, failures_of, pair

DPO = DpoOptions(beta=0.3)


def lesson(task: str, length: int, *, first: int, success: bool = True, every: int = 2) -> Lesson:
    ids = tuple(first + 3 * place % 400 for place in range(length))
    mask = tuple(place % every == 1 for place in range(length))
    return Lesson(ids, mask, success, LessonOrigin(task, float(success), "", ()))


LESSONS = [
    lesson("a", 12, first=7),
    lesson("b", 40, first=9, every=3),
    lesson("a", 25, first=30, every=5),
    lesson("a", 18, first=31),
    lesson("a", 33, first=2, success=False),
    lesson("a", 21, first=60, success=False),
    lesson("c", 15, first=90, success=False),
]


def fit() -> FitContext:
    return FitContext(TrainerSection(), Share(), 99, 3, lambda: None)


def gradient(
    model, paired: list[Paired], pieces: list[list[Paired]], options: DpoOptions = DPO
) -> tuple[float, Tensor]:
    model.zero_grad()
    loss = dpo(model, paired, pieces, TrainerSection(), Share(), options=options)
    return loss, gradient_of(model)


def moved(options: DpoOptions = DPO):
    """A model that has gone on from the reference, and the pairs by the reference."""
    paired = pair(ready(), LESSONS, options, fit())
    return ready(adapter(6)), paired


def test_a_success_is_paired_with_the_failures_of_its_task_in_turn():
    assert list(failures_of(LESSONS)) == [LESSONS[4], None, LESSONS[5], LESSONS[4]]
    assert list(failures_of(LESSONS[4:])) == []
    with pytest.raises(TrainError, match="none of 3 lessons is one"):
        pair(ready(), LESSONS[4:], DPO, fit())


def test_the_loss_in_small_numbers():
    found = dpo_losses(torch.tensor([0.0, 3.0]), torch.tensor([0.0, 1.0]), DpoOptions(beta=0.5))
    assert found.tolist() == pytest.approx([log(2), log(1 + exp(-1))])


numbers = st.floats(-30, 10, width=32)


@pytest.mark.slow
@optional("trl")
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=50, deadline=None)
@given(pairs=st.lists(st.tuples(*[numbers] * 4), min_size=1, max_size=8), beta=st.floats(0.01, 2))
def test_the_loss_and_its_gradient_are_those_of_trl(pairs, beta):
    """On the same log-probabilities of either episode: now, and by the reference."""
    better, better_then, worse, worse_then = torch.tensor(pairs).T
    now = torch.cat([better, worse])
    ours, theirs = now.clone().requires_grad_(), now.clone().requires_grad_()
    gains = ours - torch.cat([better_then, worse_then])
    loss = dpo_losses(*gains.chunk(2), DpoOptions(beta=beta)).mean()
    expected = trl_loss(theirs, better_then, worse_then, beta)
    loss.backward()
    expected.backward()
    assert torch.allclose(loss, expected, atol=1e-5)
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-5)


def trl_loss(now: Tensor, better_then: Tensor, worse_then: Tensor, beta: float) -> Tensor:
    """What DPOTrainer computes for a model that says exactly this about one token per episode."""
    from trl import DPOTrainer

    def same(found: Tensor) -> Tensor:
        return found

    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(device="cpu", gather=same, gather_for_metrics=same),
        loss_types=["sigmoid"],
        loss_weights=[1.0],
        f_divergence_type="reverse_kl",
        precompute_ref_logps=True,
        use_weighting=False,
        aux_loss_enabled=False,
        ld_alpha=None,
        beta=beta,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _total_train_tokens=0,
        _tp_size=1,
    )
    both = torch.ones(len(now), 2, dtype=torch.long)
    zero = torch.zeros(len(now), 1)
    said = SimpleNamespace(
        log_probs=now[:, None], entropy=zero, mean_logits=zero, is_top1=zero.bool()
    )
    inputs = {
        "input_ids": both,
        "attention_mask": both,
        "completion_mask": torch.tensor([[0, 1]] * len(now)),
        "ref_chosen_logps": better_then,
        "ref_rejected_logps": worse_then,
    }
    found: Tensor = DPOTrainer._compute_loss(trainer, lambda **_: said, inputs, False)
    return found


def test_where_the_fit_starts_a_pair_costs_the_logarithm_of_two():
    options = DPO.model_copy(update={"sft_weight": 0.0})
    model = ready()
    paired = pair(model, LESSONS, options, fit())
    assert gradient(model, paired, [paired], options)[0] == pytest.approx(log(2), abs=1e-5)


def test_without_a_failure_it_is_the_likelihood_of_the_successes():
    won = [one for one in LESSONS if one.success]
    model = ready()
    paired = pair(model, won, DPO, fit())
    loss, found = gradient(model, paired, [paired])
    plain = batch_loss(model, make_batch(won))
    plain.backward()
    assert_same((loss, found), (plain.item(), gradient_of(model)))


@pytest.mark.parametrize("max_tokens", [1, 45, 80])
def test_a_batch_in_pieces_has_the_gradient_of_the_whole_batch(max_tokens: int):
    model, paired = moved()
    pieces = make_pieces(paired, max_tokens=max_tokens)
    assert_same(gradient(model, paired, [paired]), gradient(model, paired, pieces))


def test_the_reference_can_be_the_base_model():
    base = pair(ready(), LESSONS, DPO.model_copy(update={"reference": "base"}), fit())
    model = ready()
    with model.disable_adapter(), torch.no_grad():
        bare = episode_chances(model, make_batch([LESSONS[0]]))
    assert base[0].reference == pytest.approx(float(bare), abs=1e-3)
    assert abs(base[0].reference - pair(ready(), LESSONS, DPO, fit())[0].reference) > 1e-2


def test_a_success_becomes_likelier_and_the_failure_of_its_task_less_likely():
    options = TrainSection(loss="dpo", lr=1e-3, steps=8, options={"sft_weight": 0})
    both = [LESSONS[0], LESSONS[4]]
    how = {"settings": options, "context": 99, "seed": 1, "course": Course(round=2)}
    after = trainer_for(PATH, SPEC).fit(adapter(), both, **how)
    batch = make_batch(both)
    with torch.no_grad():
        then = episode_chances(ready(), batch)
        success, failure = episode_chances(ready(after.adapter), batch) - then
    assert success > 0.1 > -0.1 > failure


def test_it_needs_the_failures_on_record():
    clients = (ClientSection(name="a", env="fedse.testing:CoinWorld"),)
    with pytest.raises(ValidationError, match=r"needs buffer\.keep_played = true"):
        Config(
            train=TrainSection(loss="dpo"), buffer=BufferSection(keep_played=False), clients=clients
        )
