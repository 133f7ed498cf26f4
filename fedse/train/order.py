"""What processes that train together are given and give back: files in a folder, no pickle."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import Arc, Course
from fedse.role_figures import RoleFit
from fedse.train.batch import Lesson
from fedse.types import Adapter, AdapterSpec, Fitted, Record


class FitOrder(Record):
    """All that a fit depends on but adapter and moments; of the lessons the tokens, no text."""

    base: Path
    spec: AdapterSpec
    place: TrainerSection
    settings: TrainSection
    context: int
    seed: int
    lessons: tuple[Lesson, ...]
    arc: Arc = Arc()
    round: int = 0
    warm: bool = False
    site: str = ""


class FitFigures(Record):
    """How a fit went."""

    loss: float
    steps: int
    tokens: int
    padded: int
    roles: dict[str, RoleFit] = {}  # noqa: RUF012 (pydantic copies it)


class Refusal(Record):
    """Why a process would not train: an error of ours, with its hint."""

    message: str
    hint: str


class FitFolder(NamedTuple):
    """The one place that all processes of a fit know."""

    path: Path

    @property
    def meeting(self) -> Path:
        """Where the processes find each other; torch makes it."""
        return self.path / "meeting"

    def stderr(self, index: int) -> Path:
        return self.path / f"stderr-{index}.txt"

    def write_order(self, order: FitOrder, start: Adapter, *, moments: bytes | None = None) -> None:
        (self.path / "order.json").write_text(order.model_dump_json())
        (self.path / "start.safetensors").write_bytes(start.to_bytes())
        _write_moments(self.path / "before.moments", moments)

    def read_order(self) -> tuple[FitOrder, Adapter]:
        """The order, and the starting adapter."""
        order = FitOrder.model_validate_json((self.path / "order.json").read_bytes())
        return order, _adapter(self.path / "start.safetensors", order.spec)

    def course(self, order: FitOrder) -> Course:
        """Where in the run the fit stands, and the moments it begins with."""
        moments = _read_moments(self.path / "before.moments")
        return Course(order.arc, moments, order.round, order.warm, order.site)

    def write_fitted(self, fitted: Fitted) -> None:
        figures = FitFigures(
            loss=fitted.loss,
            steps=fitted.steps,
            tokens=fitted.tokens,
            padded=fitted.padded,
            roles=dict(fitted.roles),
        )
        (self.path / "figures.json").write_text(figures.model_dump_json())
        (self.path / "fitted.safetensors").write_bytes(fitted.adapter.to_bytes())
        _write_moments(self.path / "after.moments", fitted.moments)

    def read_fitted(self, spec: AdapterSpec) -> Fitted:
        figures = FitFigures.model_validate_json((self.path / "figures.json").read_bytes())
        moments = _read_moments(self.path / "after.moments")
        adapter = _adapter(self.path / "fitted.safetensors", spec)
        return Fitted(adapter, **dict(figures), moments=moments)

    def refuse(self, index: int, refusal: Refusal) -> None:
        (self.path / f"refused-{index}.json").write_text(refusal.model_dump_json())

    def refusals(self) -> list[Refusal]:
        found = sorted(self.path.glob("refused-*.json"))
        return [Refusal.model_validate_json(file.read_bytes()) for file in found]


def _adapter(file: Path, spec: AdapterSpec) -> Adapter:
    """An adapter of `spec` that a process of ours wrote."""
    data = file.read_bytes().removeprefix(spec.header)
    return Adapter(spec, np.frombuffer(data, dtype="<f4").astype(np.float32))


def _write_moments(file: Path, moments: bytes | None) -> None:
    if moments is not None:
        file.write_bytes(moments)


def _read_moments(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None
