"""KTO: TRL's loss on the same log-probabilities, and one gradient however a batch is divided."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import exp
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.needs import needs, optional

needs("torch")

import torch
from tiny_fits import PATH, SPEC, adapter, assert_same, gradient_of, noted, ready
from torch import Tensor

from fedse.config.hardware import TrainerSection
from fedse.config.schema import BufferSection, ClientSection, Config, RolloutSection
from fedse.config.training import TrainSection, WarmstartSection
from fedse.events import silent
from fedse.method.rounds import client_round
from fedse.site.open import add_demonstrations
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.train.batch import Lesson, learned_tokens, make_batch, make_pieces
from fedse.train.log_probabilities import episode_chances
from fedse.train.lora import trainer_for
from fedse.train.loss import FitContext
from fedse.train.optimise import Share, batch_loss
from fedse.types import Adapter, Trajectory
from fedse_variants.kto import KtoOptions
from fedse_variants.kto_loss import Judged, judge, kto, kto_losses, mixed

KTO = KtoOptions(beta=0.2, undesirable_weight=1.5)
TRAIN = TrainSection(loss="kto", lr=2e-3, batch=3, options=KTO.model_dump())


def fit(share: Share = Share()) -> FitContext:  # noqa: B008  a value that nobody changes
    return FitContext(TrainerSection(), share, 99, TRAIN.batch, lambda: None)


def lesson(length: int, *, first: int, success: bool = True, every: int = 2) -> Lesson:
    ids = tuple(first + 3 * place % 400 for place in range(length))
    return Lesson(ids, tuple(place % every == 1 for place in range(length)), success)


LESSONS = [
    lesson(12, first=7),
    lesson(40, first=9, success=False, every=3),
    lesson(25, first=30, every=5),
    Lesson((4, 5, 6), (False,) * 3, success=False),
    lesson(33, first=2, success=False),
]


def gradient(
    model, judged: list[Judged], pieces: list[list[Judged]], options: KtoOptions, share: Share
) -> tuple[float, Tensor]:
    model.zero_grad()
    loss = kto(model, judged, pieces, TrainerSection(), share, options=options)
    return loss, gradient_of(model)


def moved(options: KtoOptions = KTO):
    """A model that has gone on from the reference, and the lessons judged by the reference."""
    judged = judge(ready(), LESSONS, options, fit())
    return ready(adapter(6)), judged


def test_the_loss_in_small_numbers():
    gains = torch.tensor([0.0, 2.0, 2.0, -3.0])
    success = torch.tensor([True, True, False, False])
    found = kto_losses(gains, success, 1.0, KtoOptions(beta=0.5, undesirable_weight=2.0))

    def sigmoid(x: float) -> float:
        return 1 / (1 + exp(-x))

    expected = [sigmoid(0.5), sigmoid(-0.5), 2 * sigmoid(0.5), 2 * sigmoid(-2.0)]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


numbers = st.floats(-30, 10, width=32)


@pytest.mark.slow
@optional("trl")
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=50, deadline=None)
@given(
    episodes=st.lists(
        st.tuples(st.booleans(), numbers, numbers, numbers, numbers), min_size=1, max_size=8
    ),
    options=st.builds(
        KtoOptions,
        beta=st.floats(0.01, 2),
        desirable_weight=st.floats(0, 3),
        undesirable_weight=st.floats(0, 3),
    ),
)
def test_the_loss_and_its_gradient_are_those_of_trl(episodes, options):
    """On the same log-probabilities: now, by the reference, and both of a mixed episode."""
    success = torch.tensor([one[0] for one in episodes])
    now, before, mixed_now, mixed_before = torch.tensor([one[1:] for one in episodes]).T
    divergence = max(0.0, (mixed_now - mixed_before).mean().item())
    ours, theirs = now.clone().requires_grad_(), now.clone().requires_grad_()
    loss = kto_losses(ours - before, success, divergence, options).mean()
    expected = trl_loss(theirs, before, mixed_now, mixed_before, success, options)
    loss.backward()
    expected.backward()
    assert torch.allclose(loss, expected, atol=1e-5)
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-5)


def trl_loss(
    now: Tensor, before: Tensor, mixed_now: Tensor, mixed_before: Tensor, success: Tensor, options
) -> Tensor:
    """What KTOTrainer computes for a model that says exactly this about one token per episode."""
    from trl import KTOTrainer

    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(device="cpu", gather_for_metrics=lambda found: found),
        loss_type="kto",
        calculate_KL=True,
        precompute_ref_logps=True,
        aux_loss_enabled=False,
        beta=options.beta,
        desirable_weight=options.desirable_weight,
        undesirable_weight=options.undesirable_weight,
        _compute_kl_logps=lambda model, batch: mixed_now,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _total_train_tokens=0,
        _tp_size=1,
    )
    pair = torch.ones(len(now), 2, dtype=torch.long)
    said = SimpleNamespace(
        log_probs=now[:, None], entropy=torch.zeros(len(now), 1), mean_logits=torch.zeros_like(pair)
    )
    inputs = {
        "label": success,
        "input_ids": pair,
        "attention_mask": pair,
        "completion_mask": torch.tensor([[0, 1]] * len(now)),
        "ref_logps": before,
        "ref_KL_logps": mixed_before,
    }
    found: Tensor = KTOTrainer._compute_loss(trainer, lambda **_: said, inputs, False)
    return found


def test_an_episodes_chance_is_the_sum_over_its_own_tokens():
    model = ready()
    with torch.no_grad():
        together = episode_chances(model, make_batch(LESSONS)).tolist()
        for one, chance in zip(LESSONS, together, strict=True):
            tokens = learned_tokens([one])
            alone = -batch_loss(model, make_batch([one])).item() * tokens if tokens else 0.0
            assert chance == pytest.approx(alone, rel=1e-5)


def test_a_stranger_is_one_opening_and_another_rest():
    one = Lesson((1, 2, 3, 4), (False, False, True, False))
    other = Lesson((5, 6, 7, 8), (False, True, False, True), success=False)
    assert mixed(one, other) == Lesson((1, 2, 6, 7, 8), (False, False, True, False, True), False)
    assert mixed(one, other, context=3).token_ids == (1, 2, 6)
    assert mixed(one, Lesson((9, 9), (False, False))).token_ids == (1, 2)


def test_where_the_fit_starts_nothing_is_gained_yet():
    """So the loss of every episode is half its weight, whatever the divergence."""
    options = KTO.model_copy(update={"sft_weight": 0.0})
    model = ready()
    judged = judge(model, LESSONS, options, fit())
    loss, _ = gradient(model, judged, [judged], options, Share())
    assert loss == pytest.approx((2 * 0.5 + 3 * 0.75) / 5, abs=1e-5)


def test_the_reference_can_be_the_base_model():
    base = ready(Adapter(SPEC, 0 * adapter().vector))
    known = judge(base, LESSONS, KTO, fit())
    told = judge(ready(), LESSONS, KTO.model_copy(update={"reference": "base"}), fit())
    assert [one.reference for one in told] == pytest.approx([one.reference for one in known])
    own = judge(ready(), LESSONS, KTO, fit())
    assert abs(own[0].reference - known[0].reference) > 1e-2


def test_without_the_kto_term_it_is_the_likelihood_of_the_successes():
    options = KtoOptions(desirable_weight=0, undesirable_weight=0, sft_weight=1)
    model, judged = moved(options)
    loss, found = gradient(model, judged, [judged], options, Share())
    won = [one for one in LESSONS if one.success]
    plain = batch_loss(model, make_batch(won))
    plain.backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])
    assert_same((loss, found), (plain.item(), expected))


@pytest.mark.parametrize("max_tokens", [1, 45, 80])
def test_a_batch_in_pieces_has_the_gradient_of_the_whole_batch(max_tokens: int):
    model, judged = moved()
    whole = gradient(model, judged, [judged], KTO, Share())
    pieces = make_pieces(judged, max_tokens=max_tokens)
    assert_same(whole, gradient(model, judged, pieces, KTO, Share()))


def test_two_processes_have_together_the_gradient_of_one():
    """Each knows the sum of what both found; here the other's part is known beforehand."""
    model, judged = moved()
    whole = gradient(model, judged, [judged], KTO, Share())
    pieces = make_pieces(judged, max_tokens=None, parts=2)
    heard: list[list[Tensor]] = [[], []]
    for process in (0, 1):
        listen = Share(process, 2, partial(noted, heard[process]))
        gradient(model, judged, pieces[process::2], KTO, listen)
    parts = [
        gradient(
            model,
            judged,
            pieces[process::2],
            KTO,
            Share(process, 2, lambda x, other=1 - process: x + heard[other][0]),
        )
        for process in (0, 1)
    ]
    assert_same(whole, (parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]))


def test_each_process_judges_its_share():
    alone = judge(ready(), LESSONS, KTO, fit())
    heard: list[Tensor] = []
    judge(ready(), LESSONS, KTO, fit(Share(1, 2, partial(noted, heard))))
    both = judge(ready(), LESSONS, KTO, fit(Share(0, 2, lambda x: x + heard[0])))
    for one, other in zip(alone, both, strict=True):
        assert other.reference == pytest.approx(one.reference, rel=1e-5)
        assert other.stranger_reference == pytest.approx(one.stranger_reference, rel=1e-5)


def fitted(options: TrainSection, **place: object) -> Adapter:
    trainer = trainer_for(PATH, SPEC, TrainerSection(**place))
    return trainer.fit(adapter(), LESSONS, settings=options, context=99, seed=1).adapter


@pytest.mark.parametrize("success", [True, False])
def test_a_success_becomes_likelier_and_a_failure_less_likely(success: bool):
    options = TrainSection(loss="kto", lr=1e-3, epochs=1, options={"sft_weight": 0})
    only = LESSONS[0]._replace(success=success)
    other = LESSONS[4]._replace(success=success)
    after = trainer_for(PATH, SPEC).fit(
        adapter(), [only, other], settings=options, context=99, seed=1
    )
    batch = make_batch([only, other])
    with torch.no_grad():
        then = episode_chances(ready(), batch)
        gained = episode_chances(ready(after.adapter), batch) - then
    assert ((gained > 0.1) if success else (gained < -0.1)).all()


def test_the_same_fit_gives_the_same_bits():
    assert fitted(TRAIN).digest == fitted(TRAIN).digest


def test_pieces_fit_what_a_whole_batch_fits():
    assert abs(fitted(TRAIN).vector - fitted(TRAIN, max_tokens=50).vector).max() < 5e-5


@pytest.mark.slow
def test_two_processes_fit_what_one_fits():
    needs("accelerate")
    assert abs(fitted(TRAIN).vector - fitted(TRAIN, processes=2).vector).max() < 5e-5


COIN = (ClientSection(name="a", env="fedse.testing:CoinWorld"),)


def test_it_learns_from_failures_and_not_before_it_explores(tmp_path: Path):
    for loss, warm, failures in (("sft", 0, False), ("kto", 0, True), ("kto", 1, False)):
        config = Config(
            train=TrainSection(loss=loss, options={"failures": 0.5} if loss == "kto" else {}),
            warmstart=WarmstartSection(rounds=warm),
            buffer=BufferSection(demonstrations=3),
            rollout=RolloutSection(episodes=20),
            clients=COIN,
        )
        site = open_toy_site(config, "a", tmp_path / f"{loss}{warm}", clock=lambda: 0.0)
        taught: list[Sequence[Trajectory]] = []

        def fit(start, lessons, *rest, taught=taught, own=site.fit):
            taught.append(lessons)
            return own(start, lessons, *rest)

        add_demonstrations(site, config)
        client_round(
            toy_adapter(toy_spec(), 1), replace(site, fit=fit), config, round=1, emit=silent
        )
        (lessons,) = taught
        lost = [lesson for lesson in lessons if not lesson.success]
        assert bool(lost) == failures
        assert len(lost) <= 0.5 * (len(lessons) - len(lost))
        assert {lesson.outcome for lesson in lost} <= {"failure"}
        assert {lesson.task.split for lesson in lessons} == {"train"}
        assert all(lesson.success for lesson in site.buffer.lessons("run", 1))
        site.buffer.close()


def test_it_needs_the_failures_on_record():
    with pytest.raises(ValidationError, match=r"needs buffer\.keep_played = true"):
        Config(
            train=TrainSection(loss="kto"), buffer=BufferSection(keep_played=False), clients=COIN
        )
