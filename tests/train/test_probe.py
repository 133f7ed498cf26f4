"""What an attacker computes: losses, gradients and continuations, held against slower ways."""

from functools import partial

import pytest

from tests.needs import needs

needs("torch")

import numpy as np
import torch

from fedse.adapters.base import adapter_spec, base_path
from fedse.agent.loaded import load_base, prepare_torch
from fedse.envs.base import make_env
from fedse.method.rollout import choose_games, demonstrate
from fedse.train.batch import Lesson, make_batch
from fedse.train.lora import load_adapter, trainer_for
from fedse.train.optimise import batch_loss
from fedse.train.probe import AdapterProbe
from fedse.types import Adapter, Trajectory

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))
MAZE = partial(make_env, "maze", {"prompt": "short"})
CONTEXT = 512


def some_adapter(seed: int, scale: float = 0.05) -> Adapter:
    drawn = np.random.default_rng(seed).standard_normal(SPEC.size) * scale
    return Adapter(SPEC, drawn.astype(np.float32))


@pytest.fixture(scope="module")
def probe() -> AdapterProbe:
    prepare_torch(1)
    return AdapterProbe(trainer_for(PATH, SPEC), context=CONTEXT)


@pytest.fixture(scope="module")
def lessons() -> list[Trajectory]:
    encoder = load_base(PATH).encoder
    played = demonstrate(choose_games(MAZE().tasks("train"), 5, seed=1), MAZE)
    return [encoder.tokenized("maze", lesson) for lesson in played]


def loss_of(adapter: Adapter, lesson: Trajectory) -> float:
    model = trainer_for(PATH, SPEC).model()
    load_adapter(model, adapter)
    with torch.no_grad():
        return float(batch_loss(model, make_batch([lesson], context=CONTEXT)))


def test_the_losses_are_those_of_training_one_by_one(probe, lessons):
    adapter = some_adapter(1)
    expected = [loss_of(adapter, lesson) for lesson in lessons]
    assert probe.losses(adapter, lessons) == pytest.approx(expected, rel=1e-4)


def test_the_cosine_is_that_of_finite_differences(probe, lessons):
    """Along any direction: how much a lesson's loss falls, by the length of its gradient."""
    start, lesson, step = some_adapter(1), lessons[0], 0.02
    axes = [some_adapter(seed).vector for seed in (7, 8)]
    units = [axis / np.linalg.norm(axis) for axis in axes]

    def moved(by: np.ndarray) -> Adapter:
        return Adapter(SPEC, (start.vector + by).astype(np.float32))

    steepest = _gradient(start, lesson)
    (down,) = probe.cosines(start, [moved(-steepest)], [lesson])
    assert down[0] == pytest.approx(1.0, abs=1e-4)
    for unit in units:
        slope = loss_of(moved(step * unit), lesson) - loss_of(moved(-step * unit), lesson)
        expected = -slope / (2 * step) / np.linalg.norm(steepest)
        ((found,),) = probe.cosines(start, [moved(3.0 * unit)], [lesson])
        assert found == pytest.approx(expected, abs=0.02)


def _gradient(adapter: Adapter, lesson: Trajectory) -> np.ndarray:
    """Of torch's own, name by name."""
    model = trainer_for(PATH, SPEC).model()
    load_adapter(model, adapter)
    model.zero_grad()
    batch_loss(model, make_batch([lesson], context=CONTEXT)).backward()
    named = {n.replace(".default", ""): p.grad for n, p in model.named_parameters()}
    parts = [named[tensor.name].flatten().numpy().copy() for tensor in SPEC.tensors]
    model.zero_grad()
    return np.concatenate(parts)


def test_a_reply_that_is_the_adapter_that_was_sent_tells_nothing(probe, lessons):
    start = some_adapter(1)
    assert probe.cosines(start, [start], lessons).tolist() == [[0.0] * len(lessons)]


def test_a_lesson_with_nothing_to_learn_asks_for_no_step(probe, lessons):
    silent = lessons[0].turns[0].model_copy(update={"learned": False})
    lesson = lessons[0].model_copy(update={"turns": (silent,)})
    assert probe.cosines(some_adapter(1), [some_adapter(2)], [lesson]).tolist() == [[0.0]]


def test_continuations_of_a_shared_head_cost_what_they_cost_alone(probe, lessons):
    adapter, ids = some_adapter(1), lessons[0].token_ids
    head, tails = ids[:12], [ids[12:20], ids[12:13], ids[30:37], ids[12:20]]
    expected = []
    for tail in tails:
        mask = (False,) * len(head) + (True,) * len(tail)
        lesson = Lesson((*head, *tail), mask)
        expected.append(probe.losses(adapter, [lesson])[0] * len(tail))
    assert probe.tail_losses(adapter, head, tails) == pytest.approx(expected, rel=1e-3)


def test_training_goes_on_as_if_nobody_had_looked(probe, lessons):
    from fedse.config.training import TrainSection

    def fitted() -> str:
        own = {"settings": TrainSection(lr=2e-3, max_steps=2), "context": CONTEXT, "seed": 1}
        return trainer_for(PATH, SPEC).fit(some_adapter(1), lessons, **own).adapter.digest

    before = fitted()
    probe.cosines(some_adapter(1), [some_adapter(2)], lessons)
    probe.tail_losses(some_adapter(3), lessons[0].token_ids[:9], [(1, 2)])
    assert fitted() == before
