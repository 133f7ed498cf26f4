"""Processes that train together give what one gives, and leave nothing behind."""

import tempfile
from pathlib import Path

import pytest

from tests.needs import needs

needs("torch", "accelerate")

import numpy as np

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.loaded import prepare_torch
from fedse.config.hardware import TrainerSection
from fedse.config.schema import TrainSection
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
    trainer = trainer_for(PATH, SPEC, TrainerSection(**place))
    options = TrainSection(lr=lr, batch=3, epochs=2)
    start = initial_adapter(SPEC, seed=0)
    return trainer.fit(start, LESSONS, settings=options, context=99, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("place", [{}, {"max_tokens": 60}, {"checkpointing": True}])
def test_two_processes_fit_what_one_fits(place: dict[str, object]):
    one, two = fit(**place), fit(**place, processes=2)
    assert np.abs(one.adapter.vector - initial_adapter(SPEC, seed=0).vector).max() > 1e-3
    assert np.abs(one.adapter.vector - two.adapter.vector).max() < 2e-5
    assert two.loss == pytest.approx(one.loss, rel=1e-5)
    assert (two.steps, two.tokens) == (one.steps, one.tokens) == (4, 2 * 122)


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
        settings=TrainSection(lr=1e-3),
        context=99,
        seed=1,
        lessons=LESSONS,
    )
    start = initial_adapter(SPEC, seed=3)
    with tempfile.TemporaryDirectory() as name:
        folder = FitFolder(Path(name))
        folder.write_order(order, start)
        read, begun = folder.read_order()
        assert (read, begun.digest) == (order, start.digest)
        fitted = Fitted(start, loss=0.1 + 0.2, steps=3, tokens=5, padded=8)
        folder.write_fitted(fitted)
        again = folder.read_fitted(SPEC)
        assert again[1:] == fitted[1:]
        assert again.adapter.digest == start.digest
