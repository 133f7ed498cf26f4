"""A server round's merge against numpy's sum of the same mapped files, which checks nothing."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedse.config.aggregation import AggregateSection
from fedse.config.schema import ClientSection, Config
from fedse.method.rounds import server_round
from fedse.method.site import Answer
from fedse.store.files import mapped
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats

CLIPS = {"no clip": "none", "clipped at the median": "median"}


class MergeBench(NamedTuple):
    """CPU seconds; ours also checks every adapter, and measures it if it is to be clipped."""

    megabytes: float
    clients: int
    fedse: Mapping[str, float]
    """For each of CLIPS."""
    bare: float

    @property
    def ratios(self) -> dict[str, float]:
        return {name: used / self.bare for name, used in self.fedse.items()}


def bench_merge(
    folder: Path, *, megabytes: float, clients: int, repeats: int
) -> Iterator[MergeBench]:
    """All merged the adapters that were written into `folder`, alternating, once per repeat."""
    width = int(megabytes * 1e6 / 4 / 8 / 2)
    spec = toy_spec(rank=8, inputs=width, outputs=width)
    files = [folder / f"{number:04d}" for number in range(clients)]
    for number, file in enumerate(files):
        file.write_bytes(toy_adapter(spec, number + 1, scale=0.01).to_bytes())
    current = toy_adapter(spec, 0, scale=0.01)
    header = len(spec.header)
    for _ in range(repeats):
        bare = _cpu_seconds(partial(_numpy_mean, files, header))
        ours = {
            name: _cpu_seconds(partial(_server_round, files, current, clip))
            for name, clip in CLIPS.items()
        }
        yield MergeBench(spec.nbytes / 1e6, clients, ours, bare)


def _server_round(files: Sequence[Path], current: Adapter, clip: str) -> None:
    aggregate = AggregateSection.model_validate({"clip": clip})
    config = Config(clients=(ClientSection(name="x", env="coin"),), aggregate=aggregate)
    answers = [Answer(f.name, ClientStats(), partial(mapped, f)) for f in files]
    merged = server_round(current, answers, config)
    assert len(merged.voters) == len(files)


def _numpy_mean(files: Sequence[Path], header: int) -> None:
    first, *others = (np.frombuffer(mapped(f), dtype="<f4", offset=header) for f in files)
    total = first.astype(np.float64)
    for vector in others:
        total += vector
    total /= len(files)
    total.astype(np.float32)


def _cpu_seconds(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
