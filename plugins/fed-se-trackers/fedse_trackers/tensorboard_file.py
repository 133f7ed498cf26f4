"""TensorBoard: a file in the run's folder."""

from collections.abc import Mapping
from pathlib import Path

from tensorboard.summary import Writer

from fedse_trackers import Sink


def begin(folder: Path, project: str, environ: Mapping[str, str]) -> Sink:
    """Numbers go to trackers/tensorboard in `folder`."""
    writer = Writer(str(folder / "trackers" / "tensorboard"))

    def log(numbers: Mapping[str, float], step: int, at: float) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step, wall_time=at)
        writer.flush()

    return Sink(log, writer.close)
