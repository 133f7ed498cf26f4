"""Processes that train together give what one gives, and leave nothing behind."""

import tempfile
from pathlib import Path

import pytest

from tests.needs import needs

needs("torch", "accelerate")

import numpy as np
from safetensors.torch import load

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.loaded import prepare_torch
from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import Arc, Course
from fedse.errors import ConfigError, TrainError
from fedse.train.batch import Lesson
from fedse.train.lora import trainer_for
from fedse.train.order import FitFolder, FitOrder
from fedse.types import Fitted

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))
LESSONS = tuple(
    Lesson(tuple(range(first, first + length)), (False, True) * (length // 2))
    for first, length in ((7, 30), (9, 12), (40, 50), (3, 22), (60, 8))
)


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The folder of a fit is made in a place that is empty before and after."""
    prepare_torch(1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == []


def fit(lr: float = 2e-3, **place: object) -> Fitted:
    return fit_by(TrainSection(lr=lr, batch=3, epochs=2), **place)


def fit_by(options: TrainSection, course: Course = Course(), **place: object) -> Fitted:  # noqa: B008
    trainer = trainer_for(PATH, SPEC, TrainerSection(**place))
    start = initial_adapter(SPEC, seed=0)
    return trainer.fit(start, LESSONS, settings=options, context=99, seed=1, course=course)


@pytest.mark.slow
@pytest.mark.parametrize("place", [{}, {"max_tokens": 60}, {"checkpointing": True}])
def test_two_processes_fit_what_one_fits(place: dict[str, object]):
    one, two = fit(**place), fit(**place, processes=2)
    assert np.abs(one.adapter.vector - initial_adapter(SPEC, seed=0).vector).max() > 1e-3
    assert np.abs(one.adapter.vector - two.adapter.vector).max() < 2e-5
    assert two.loss == pytest.approx(one.loss, rel=1e-5)
    assert (two.steps, two.tokens) == (one.steps, one.tokens) == (4, 2 * 122)


@pytest.mark.slow
def test_two_processes_go_on_with_the_moments_and_the_schedule_of_the_run():
    settings = TrainSection(
        lr=2e-3, batch=2, steps=4, schedule="run", optimizer="kept", batches="by-length"
    )
    before = fit_by(settings, Course(Arc(0, 4, 12)))
    course = Course(Arc(4, 4, 12), before.moments)
    one, two = (fit_by(settings, course, max_tokens=60, processes=n) for n in (1, 2))
    assert np.abs(one.adapter.vector - two.adapter.vector).max() < 2e-5
    assert two.steps == 4
    alone = fit_by(settings, Course(Arc(4, 4, 12)))
    assert np.abs(one.adapter.vector - alone.adapter.vector).max() > 1e-3
    assert one.moments is not None
    assert two.moments is not None
    ours, theirs = load(one.moments), load(two.moments)
    assert set(ours) == set(theirs)
    assert ours["steps"].tolist() == theirs["steps"].tolist() == [8] * len(SPEC.tensors)
    assert all((ours[name] - theirs[name]).abs().max() < 1e-5 for name in ours if name != "layout")


@pytest.mark.slow
def test_an_error_of_ours_comes_back_with_its_hint():
    with pytest.raises(TrainError, match="training loss is not finite") as caught:
        fit(lr=1e30, processes=2)
    assert caught.value.hint == "lower train.lr"


@pytest.mark.slow
def test_any_other_failure_comes_back_with_the_end_of_what_the_process_said(tmp_path: Path):
    nowhere = trainer_for(PATH, SPEC, TrainerSection(processes=2, device="nonsense"))
    with pytest.raises(
        TrainError, match=r"(?s)process \d of the trainer ended with exit code 1: .*NCCL"
    ):
        nowhere.fit(
            initial_adapter(SPEC, seed=0), LESSONS, settings=TrainSection(), context=99, seed=1
        )


def test_one_named_device_is_not_for_several_processes():
    with pytest.raises(ConfigError, match=r"'cuda:1' is one device, trainer\.processes is 2"):
        fit(processes=2, device="cuda:1")


def test_an_order_and_its_result_go_through_the_folder_unchanged(tmp_path: Path):
    order = FitOrder(
        base=PATH,
        spec=SPEC,
        place=TrainerSection(processes=2, max_tokens=60),
        settings=TrainSection(lr=1e-3, steps=7),
        context=99,
        seed=1,
        lessons=LESSONS,
        arc=Arc(2, 1, 5),
    )
    start = initial_adapter(SPEC, seed=3)
    with tempfile.TemporaryDirectory() as name:
        folder = FitFolder(Path(name))
        folder.write_order(order, start)
        read, begun = folder.read_order()
        assert (read, begun.digest) == (order, start.digest)
        assert folder.course(read) == Course(Arc(2, 1, 5), None)
        folder.write_order(order, start, moments=b"before")
        assert folder.course(read) == Course(Arc(2, 1, 5), b"before")
        fitted = Fitted(start, loss=0.1 + 0.2, steps=3, tokens=5, padded=8, moments=b"after")
        folder.write_fitted(fitted)
        again = folder.read_fitted(SPEC)
        assert again[1:] == fitted[1:]
        assert again.adapter.digest == start.digest
