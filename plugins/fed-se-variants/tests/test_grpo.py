"""GRPO: TRL's loss on the same log-probabilities, REINFORCE at the first step, and what is refused.

The lessons are games that the tiny model really played, with the log-probabilities it had.
"""

from collections import defaultdict
from functools import lru_cache, partial
from math import log
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

from fedse.agent.hf import HFPolicy, engine_for
from fedse.config.aggregation import AggregateSection
from fedse.config.hardware import TrainerSection
from fedse.config.schema import BufferSection, ClientSection, Config, RolloutSection
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.envs.base import make_env
from fedse.errors import TrainError
from fedse.method.lessons import mixed_groups
from fedse.method.rollout import choose_games, rollout
from fedse.method.rounds import server_round
from fedse.method.site import Answer
from fedse.train.batch import (
    Lesson,
    LessonOrigin,
    learned_tokens,
    lesson_of,
    make_batch,
    make_pieces,
)
from fedse.train.log_probabilities import episode_chances
from fedse.train.lora import trainer_for
from fedse.train.loss import FitContext
from fedse.train.optimise import Share
from fedse.types import Adapter, ClientStats, Trajectory
from fedse_variants.grpo import Grpo, GrpoOptions
from fedse_variants.grpo_loss import Weighed, advantages, grpo, grpo_losses, weigh, weights_of

GRPO = GrpoOptions(group=4, kl=0.05)
MAZE = partial(make_env, "maze", {"prompt": "short"})
CONTEXT = 300


@lru_cache
def played() -> list[Trajectory]:
    """Games of the adapter that the fits start from, of tasks with and without success."""
    ready()
    options = {"temperature": 1.0, "context": CONTEXT, "new_tokens": 6}
    policy = HFPolicy(engine_for(PATH, SPEC), adapter(), log_chances=True, **options)
    games = choose_games(MAZE().tasks("train"), 48, seed=3, group=8)
    return rollout(games, MAZE, policy, round=1, batch=16, seed=3, max_turns=8)


@lru_cache
def lessons() -> list[Lesson]:
    games = [one for group in mixed_groups(played()).values() for one in group]
    assert 8 <= len(games) < 48
    return [lesson_of(one, context=CONTEXT, origin=True) for one in games]


def fit(share: Share = Share(), start: str = "") -> FitContext:  # noqa: B008  nobody changes it
    own = start or adapter().digest
    return FitContext(TrainerSection(), share, CONTEXT, 5, lambda: None, own)


def gradient(
    model, weighed: list[Weighed], pieces: list[list[Weighed]], options: GrpoOptions = GRPO
) -> tuple[float, Tensor]:
    model.zero_grad()
    loss = grpo(model, weighed, pieces, TrainerSection(), Share(), options=options)
    return loss, gradient_of(model)


def test_an_advantage_is_the_reward_minus_the_mean_of_the_others():
    assert advantages([1.0, 0.0]) == [1.0, -1.0]
    assert advantages([1.0, 0.0, 0.0, 0.0]) == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert advantages([0.5, 0.5, 2.0]) == [-0.75, -0.75, 1.5]
    assert advantages([3.0]) == [0.0], "there is nothing to compare it with"
    mixed = [LessonOrigin(task, reward, "", ()) for task, reward in (("a", 1), ("b", 0), ("a", 0))]
    assert weights_of([*mixed, LessonOrigin("b", 3, "", ())]) == [1, -3, -1, 3]


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=9))
def test_the_advantages_of_a_group_add_up_to_nothing(rewards: list[float]):
    """So a group in which all are equally good teaches nothing, and one better game something."""
    found, spread = advantages(rewards), max(rewards) - min(rewards)
    assert sum(found) == pytest.approx(0, abs=1e-9)
    assert spread / 2 - 1e-9 <= max(map(abs, found)) <= spread + 1e-9


def test_the_loss_in_small_numbers():
    """Ratio 3 counts as 2 for a worse game and as 1.28 for a better one; 0.1 as 0.8 and as 0.1."""
    now = torch.log(torch.tensor([1.0, 3.0, 3.0, 0.1, 0.1]))
    weights, zero = torch.tensor([2.0, 1.0, -1.0, 1.0, -1.0]), torch.zeros(5)
    found = grpo_losses(now, zero, zero, weights, GrpoOptions())
    assert found.tolist() == pytest.approx([-2.0, -1.28, 2.0, -0.1, 0.8])
    apart = grpo_losses(now, zero, zero, zero, GrpoOptions(kl=0.5))
    expected = [0.5 * (1 / r + log(r) - 1) for r in (1.0, 3.0, 3.0, 0.1, 0.1)]
    assert apart.tolist() == pytest.approx(expected, abs=1e-6)


numbers = st.floats(-6, 0, width=32)


@pytest.mark.slow
@optional("trl")
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(-3, 3, width=32), st.lists(st.tuples(*[numbers] * 3), min_size=1)),
        min_size=1,
        max_size=5,
    ),
    options=st.builds(
        GrpoOptions,
        clip=st.tuples(st.floats(0.05, 0.5), st.floats(0.05, 0.5)),
        cap=st.floats(1.5, 5),
        kl=st.sampled_from([0.0, 0.01, 0.5]),
    ),
)
def test_the_loss_and_its_gradient_are_those_of_trl(rows, options):
    """With its `dapo` normalisation, two-sided clipping, and the rollout's as the old ones."""
    now, old, start = torch.tensor([token for _, tokens in rows for token in tokens]).T
    weights = torch.tensor([weight for weight, tokens in rows for _ in tokens])
    ours, theirs = now.clone().requires_grad_(), now.clone().requires_grad_()
    loss = grpo_losses(ours, old, start, weights, options).sum() / len(now)
    expected = trl_loss(theirs, old, start, rows, options)
    loss.backward()
    expected.backward()
    assert torch.allclose(loss, expected, rtol=1e-4, atol=1e-5)
    assert torch.allclose(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def trl_loss(now: Tensor, old: Tensor, start: Tensor, rows, options: GrpoOptions) -> Tensor:
    """What GRPOTrainer computes for a model that says exactly this about the tokens of each row."""
    from trl import GRPOTrainer

    lengths = [len(tokens) for _, tokens in rows]
    wide = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)

    def padded(flat: Tensor) -> Tensor:
        return wide(torch.split(flat, lengths))

    mask = padded(torch.ones(len(now), dtype=torch.long))
    said = (padded(now), torch.zeros_like(mask, dtype=torch.float), None)
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(
            num_processes=1, gather=lambda found: found, reduce=lambda found, reduction: found
        ),
        args=SimpleNamespace(
            delta=options.cap, use_bias_correction_kl=False, steps_per_generation=1
        ),
        loss_type="dapo",
        beta=options.kl,
        epsilon_low=options.clip[0],
        epsilon_high=options.clip[1],
        importance_sampling_level="token",
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        aux_loss_enabled=False,
        current_gradient_accumulation_steps=1,
        _entropy_bonus_enabled=False,
        _get_per_token_logps_and_entropies=lambda *_, **__: said,
        _metrics=defaultdict(lambda: defaultdict(list)),
    )
    inputs = {
        "prompt_ids": mask[:, :1],
        "prompt_mask": mask[:, :1],
        "completion_ids": mask,
        "completion_mask": mask,
        "advantages": torch.tensor([weight for weight, _ in rows]),
        "old_per_token_logps": padded(old),
        "ref_per_token_logps": padded(start),
        "num_items_in_batch": mask.sum(),
    }
    found: Tensor = GRPOTrainer._compute_loss(trainer, None, inputs)
    return found


def test_at_the_first_step_it_is_the_policy_gradient_with_that_advantage():
    """REINFORCE: minus the advantage times the log-probability of a game, per token of all."""
    games, model = lessons(), ready()
    weighed = weigh(model, games, fit())
    loss, found = gradient(model, weighed, [weighed])
    weights = torch.tensor(weights_of([one.origin for one in games]))
    plain = -(weights * episode_chances(model, make_batch(games))).sum() / learned_tokens(games)
    plain.backward()
    expected = gradient_of(model)
    assert (found - expected).abs().max() < 1e-3 * expected.abs().max() > 0
    lengths = torch.tensor([learned_tokens([one]) for one in games])
    assert loss == pytest.approx(-float((weights * lengths).sum() / lengths.sum()), abs=1e-4)


def moved():
    """A model that has gone on, and the games as weighed before."""
    games = lessons()
    weighed = weigh(ready(), games, fit())
    return ready(adapter(6)), weighed


@pytest.mark.parametrize("max_tokens", [1, 200, 900])
def test_a_batch_in_pieces_has_the_gradient_of_the_whole_batch(max_tokens: int):
    model, weighed = moved()
    pieces = make_pieces(weighed, max_tokens=max_tokens)
    assert_same(gradient(model, weighed, [weighed]), gradient(model, weighed, pieces))


def test_the_same_games_twice_have_the_gradient_of_once():
    """As the sum is divided by the tokens of the batch."""
    model, weighed = moved()
    twice = [*weighed, *weighed]
    assert_same(gradient(model, weighed, [weighed]), gradient(model, twice, [twice]))


def test_each_process_weighs_its_share():
    alone = weigh(ready(), lessons(), fit())
    heard: list[Tensor] = []
    half = partial(weigh, ready(), lessons())
    with pytest.raises(TrainError, match="nats per token"):
        half(fit(Share(1, 2, partial(noted, heard))))
    both = half(fit(Share(0, 2, lambda found: found + heard[0])))
    for one, other in zip(alone, both, strict=True):
        assert other.advantage == one.advantage
        assert other.start == pytest.approx(one.start, abs=1e-5)


def test_games_of_another_adapter_are_refused():
    with pytest.raises(TrainError, match="starts from, 123456789012, and a game was played by"):
        weigh(ready(), lessons(), fit(start="1234567890123"))
    with pytest.raises(TrainError, match="played by nobody known"):
        weigh(ready(), [lessons()[0]._replace(origin=None)], fit())


def told(lesson: Lesson, change: float) -> Lesson:
    """The lesson, whose recorded log-probabilities are off by so much."""
    changed = tuple(one + change for one in lesson.origin.log_chances)
    return lesson._replace(origin=lesson.origin._replace(log_chances=changed))


@pytest.mark.parametrize(("change", "refused"), [(0.019, False), (0.021, True), (-0.021, True)])
def test_a_model_that_computes_otherwise_than_the_one_that_played_is_refused(
    change: float, refused: bool
):
    games = [told(one, change) for one in lessons()]
    if not refused:
        assert len(weigh(ready(), games, fit())) == len(games)
        return
    with pytest.raises(TrainError, match=r"differ by 0\.021 nats per token"):
        weigh(ready(), games, fit())
    with pytest.raises(TrainError, match="nats per token"):
        weigh(ready(adapter(6)), lessons(), fit())


def test_a_game_without_log_probabilities_counts_for_the_others_and_is_left_out():
    first, *others = lessons()
    unknown = first._replace(origin=first.origin._replace(log_chances=()))
    weighed = weigh(ready(), [unknown, *others], fit())
    assert [one.advantage for one in weighed] == weights_of([one.origin for one in lessons()])[1:]
    with pytest.raises(TrainError, match="no game has them"):
        weigh(ready(), [unknown], fit())


def fitted(start: Adapter | None = None, **changed: object) -> Adapter:
    own: dict[str, object] = {"loss": "grpo", "lr": 2e-3, "batch": 8, "options": {"group": 8}}
    settings = TrainSection(**own, **{"steps": 6, **changed})
    trainer = trainer_for(PATH, SPEC, TrainerSection())
    games = [one for group in mixed_groups(played()).values() for one in group]
    course = Course(round=2)
    how = {"settings": settings, "context": CONTEXT, "seed": 1, "course": course}
    return trainer.fit(start or adapter(), games, **how).adapter


def test_better_games_become_likelier_than_worse_ones():
    games = lessons()
    batch, weights = make_batch(games), torch.tensor(weights_of([one.origin for one in games]))
    after = fitted()
    with torch.no_grad():
        gained = episode_chances(ready(after), batch) - episode_chances(ready(), batch)
    assert float((gained * weights).mean()) > 0.1


def test_the_same_fit_gives_the_same_bits_and_two_equal_sites_are_one():
    made = fitted()
    assert made.digest == fitted().digest
    answers = [Answer(name, ClientStats(buffered=1), made.to_bytes) for name in ("a", "b")]
    clients = tuple(ClientSection(name=name, env="fedse.testing:CoinWorld") for name in "ab")
    config = Config(aggregate=AggregateSection(clip="none"), clients=clients)
    assert server_round(adapter(), answers, config).adapter.digest == made.digest


def test_steps_that_move_nothing_are_an_error():
    settings = TrainSection(loss="grpo", options={"group": 8})
    moved_a = {name: t.copy() for name, t in adapter().tensors().items()}
    for name, tensor in moved_a.items():
        tensor[:] += 1.0 * (".lora_A." in name)
    vector = torch.cat([torch.from_numpy(moved_a[t.name]).flatten() for t in SPEC.tensors]).numpy()
    with pytest.raises(TrainError, match="left every B as it was"):
        Grpo(settings).leaves(Adapter(SPEC, vector), adapter())
    assert Grpo(settings).leaves(adapter(6), adapter()).digest == adapter(6).digest


def test_a_fit_that_is_independent_of_any_round_is_that_of_the_likelihood():
    """Without games of the round there is nothing to compare."""
    games, trainer = played()[:4], trainer_for(PATH, SPEC)
    made = [
        trainer.fit(adapter(), games, settings=TrainSection(loss=loss), context=CONTEXT, seed=1)
        for loss in ("grpo", "sft")
    ]
    assert made[0].adapter.digest == made[1].adapter.digest


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rollout": RolloutSection(temperature=0.7)}, r"needs rollout\.temperature = 1\.0"),
        ({"buffer": BufferSection(pooled=True)}, r"needs buffer\.pooled = false"),
        ({"train": TrainSection(loss="grpo", options={"clip": [0.2, 0.3]})}, None),
    ],
)
def test_what_it_depends_on(settings: dict[str, object], reason: str | None):
    clients = (ClientSection(name="a", env="maze"),)
    given = {"train": TrainSection(loss="grpo"), "clients": clients, **settings}
    if reason is None:
        assert Config(**given).train.loss == "grpo"
        return
    with pytest.raises(ValidationError, match=reason):
        Config(**given)


@pytest.mark.parametrize("options", [{"group": 1}, {"clip": [0.2, 1.0]}, {"cap": 0.5}, {"k": 1}])
def test_options_that_have_no_meaning_are_refused(options: dict[str, object]):
    with pytest.raises(ValidationError, match=r"train\.options"):
        TrainSection(loss="grpo", options=options)
