"""A server round's merge against numpy's mean of the same files."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedse.config.schema import ClientSection, Config
from fedse.method.rounds import server_round
from fedse.method.site import Answer
from fedse.store.files import mapped
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats


class MergeBench(NamedTuple):
    """CPU seconds; ours also checks every adapter, measures its length and clips it."""

    megabytes: float
    clients: int
    fedse: float
    bare: float

    @property
    def ratio(self) -> float:
        return self.fedse / self.bare


def bench_merge(folder: Path, *, megabytes: float, clients: int) -> MergeBench:
    """Both merged the adapters that were written into `folder`, one after the other."""
    width = int(megabytes * 1e6 / 4 / 8 / 2)
    spec = toy_spec(rank=8, inputs=width, outputs=width)
    files = [folder / f"{number:04d}" for number in range(clients)]
    for number, file in enumerate(files):
        file.write_bytes(toy_adapter(spec, number + 1, scale=0.01).to_bytes())
    current = toy_adapter(spec, 0, scale=0.01)
    header = len(spec.header)
    bare = _cpu_seconds(partial(_numpy_mean, files, header))
    ours = _cpu_seconds(partial(_server_round, files, current))
    return MergeBench(spec.nbytes / 1e6, clients, ours, bare)


def _server_round(files: Sequence[Path], current: Adapter) -> None:
    config = Config(clients=(ClientSection(name="x", env="coin"),))
    answers = [Answer(f.name, ClientStats(), partial(mapped, f)) for f in files]
    merged = server_round(current, answers, config)
    assert len(merged.voters) == len(files)


def _numpy_mean(files: Sequence[Path], header: int) -> None:
    total = None
    for file in files:
        vector = np.frombuffer(file.read_bytes(), dtype="<f4", offset=header)
        total = vector.astype(np.float64) if total is None else total + vector
    assert total is not None
    (total / len(files)).astype(np.float32)


def _cpu_seconds(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
