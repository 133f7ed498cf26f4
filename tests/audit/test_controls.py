"""The audit on the shipped model: what must be found is found, what cannot be is not."""

from functools import partial

import pytest

from tests.needs import needs

needs("torch")

import numpy as np

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.loaded import load_base, prepare_torch
from fedse.audit.attacks import AttackerView
from fedse.audit.canary import make_canaries
from fedse.audit.conduct import AuditPlan, conduct_audit
from fedse.audit.controls import (
    observations_control,
    repeated_control,
    strangers_control,
    with_observations,
)
from fedse.audit.game import AuditSubject, HalfReplies, draw_halves
from fedse.config.training import TrainSection
from fedse.envs.base import make_env
from fedse.method.rollout import choose_games, demonstrate
from fedse.train.lora import trainer_for
from fedse.train.probe import AdapterProbe
from tests.audit.test_game import lesson

PATH = base_path("tiny-five")
SPEC = adapter_spec("tiny-five", rank=8, alpha=16, targets=("all-linear",))
OPTIONS = {"prompt": "short", "depths": [1, 2], "distractors": 3, "max_turns": 10}
# Its games differ from each other. In the small maze they do not, and what was learned by heart is
# recognised with an AUC of 0.73 only: an audit there says that it does not work.
WORLD = partial(make_env, "textcraft", OPTIONS)
CONTEXT = 512


def tiny_subject(settings: TrainSection, count: int = 80) -> AuditSubject:
    prepare_torch(1)
    encoder, start = load_base(PATH).encoder, initial_adapter(SPEC, seed=1)
    trainer = trainer_for(PATH, SPEC)
    games = choose_games(WORLD().tasks("train"), 2 * count, seed=1)
    shown = {one.content_digest: one for one in demonstrate(games, WORLD)}
    tokenized = partial(encoder.tokenized, WORLD().system_prompt)

    def learn(lessons, settings, seed):
        return trainer.fit(start, lessons, settings=settings, context=CONTEXT, seed=seed).adapter

    pool = [tokenized(one) for one in [*shown.values()][:count]]
    probe = AdapterProbe(trainer, context=CONTEXT)
    return AuditSubject(start, pool, settings, learn, probe, tokenized)


def test_with_observations_every_token_is_learned_from_and_none_is_changed():
    one = lesson(1)
    whole = with_observations(one)
    assert whole.token_ids == one.token_ids
    assert (one.loss_mask, whole.loss_mask) == ((False, True), (True, True))


def test_strangers_look_alike_unless_something_else_tells_them_apart():
    members, seed = draw_halves(200, 1, seed=1), 5
    game, random = HalfReplies((), members), np.random.default_rng(2)
    losses = np.stack([random.normal(size=200)] * 2)
    view = AttackerView(np.zeros(200), losses, np.zeros((2, 200)))
    assert strangers_control(view, game, seed=seed).succeeded
    # A score that follows the very division that the control makes.
    order = np.random.default_rng(_seed_of_division(seed)).permutation(np.flatnonzero(~members[0]))
    losses[0, order] = np.arange(100)
    assert not strangers_control(view, game, seed=seed).succeeded


def _seed_of_division(seed: int) -> int:
    from fedse.seeds import seed_of

    return seed_of(seed, "strangers")


@pytest.mark.long
def test_lessons_learned_by_heart_are_recognised():
    found = observations_control(tiny_subject(TrainSection()), seed=1)
    assert found.succeeded
    assert found.figure >= 0.8


@pytest.mark.slow
def test_a_secret_typed_a_hundred_times_is_found():
    subject = tiny_subject(TrainSection(), count=20)
    (canary,) = make_canaries(subject.pool, "typed", 1, seed=1)
    found = repeated_control(subject, canary, candidates=4096, seed=1)
    assert found.succeeded
    assert found.figure >= 10


@pytest.mark.long
def test_a_site_that_learns_observations_by_heart_does_not_pass_and_the_same_audit_repeats():
    leaky = TrainSection(lr=5e-3, epochs=15, batch=4)
    subject = tiny_subject(leaky, count=24)
    subject = subject._replace(pool=[with_observations(one) for one in subject.pool])
    plan = AuditPlan(shadows=0, canaries=1, candidates=64)
    first, again = (conduct_audit(subject, plan) for _ in range(2))
    assert first == again
    assert first.worst.auc > 0.8
    assert {one.attack for one in first.attacks} == {"loss", "difference", "cosine"}
