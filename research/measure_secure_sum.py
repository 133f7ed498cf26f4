"""CPU seconds of a round in the clear and of one whose server sees only the sum, members included.

Everything is in one process: all members' work after training and the server's, with their files.
Training itself is a sum of two vectors, so what is compared is what federation costs.

OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m research.measure_secure_sum OUT.json
"""

import argparse
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedse.config.judging import EvalSection
from fedse.config.schema import AggregateSection, ClientSection, Config, RolloutSection, RunSection
from fedse.drivers.local import InProcess
from fedse.drivers.loop import federate
from fedse.drivers.secure_merge import introduce_members
from fedse.method.site import Site
from fedse.protocol import Delivery, Question
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter, AdapterSpec, Clock, Fitted


class Leaving(InProcess):
    """The local driver, where some members leave before their masked updates arrive."""

    def __init__(self, *given: Any, leavers: int) -> None:
        super().__init__(*given)
        self._leavers = leavers

    def __call__(
        self, question: Question, body: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        first = self._leavers if question.kind == "masked" else 0
        return super().__call__(question, body, of=sorted(of)[first:])


def open_large(
    updates: Mapping[str, Adapter], config: Config, client: str, home: Path, *, clock: Clock
) -> Site:
    """A toy site with adapters of the measured size."""
    update = updates[client]

    def fit(start: Adapter, *given: object) -> Fitted:
        return Fitted(Adapter(start.spec, start.vector + update.vector), loss=1.0, steps=1)

    site = open_toy_site(config, client, home, clock=clock)
    return replace(site, spec=update.spec, fit=fit)


def measured(
    folder: Path, spec: AdapterSpec, clients: int, rounds: int, *, secure: bool, leavers: int = 0
) -> list[float]:
    """CPU seconds of every round but the first, which creates files and loads modules."""
    names = [f"member-{place:02d}" for place in range(clients)]
    config = Config(
        run=RunSection(rounds=rounds + 1),
        rollout=RolloutSection(episodes=4),
        eval=EvalSection(episodes=0),
        aggregate=AggregateSection(clip="none" if secure else "median", secure=secure),
        clients=tuple(ClientSection(name=n, env="fedse.testing:CoinWorld") for n in names),
    )
    # As long as an update may be: 8 is the bound.
    scale = 4.0 / spec.size**0.5
    updates = {n: toy_adapter(spec, i + 1, scale=scale) for i, n in enumerate(names)}
    marks: list[float] = []

    def mark(event: str, facts: object) -> None:
        if event in ("round.started", "round.committed"):
            marks.append(time.process_time())

    run = Run(folder, config, spec, clock=time.time, observers=[mark])
    if secure:
        introduce_members(folder, {n: folder / "clients" / n for n in names})
    driver = Leaving(run, time.time, partial(open_large, updates), leavers=leavers)
    with closing(run), closing(driver):
        federate(run, driver, clock=time.time)
        voters = {len(result.voters) for result in run.results()}
    assert voters == {clients - leavers}
    return np.diff(marks)[::2].tolist()[1:]


def summary(seconds: Sequence[float]) -> dict[str, float]:
    return {"median": median(seconds), "least": min(seconds), "most": max(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    width = int(args.megabytes * 1e6 / 4 / 8 / 2)
    spec = toy_spec(rank=8, inputs=width, outputs=width)
    third = (args.clients - 1) // 3
    found: dict[str, Any] = {"bytes": spec.nbytes, "clients": args.clients, "rounds": args.rounds}
    for name, secure, leavers in (("clear", 0, 0), ("secure", 1, 0), ("third_gone", 1, third)):
        with TemporaryDirectory() as folder:
            seconds = measured(
                Path(folder), spec, args.clients, args.rounds, secure=bool(secure), leavers=leavers
            )
        found[name] = summary(seconds)
        print(name, found[name], flush=True)
    found["ratio"] = found["secure"]["median"] / found["clear"]["median"]
    found["ratio_third_gone"] = found["third_gone"]["median"] / found["clear"]["median"]
    args.out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"secure / clear: {found['ratio']:.2f}; a third gone: {found['ratio_third_gone']:.2f}")


if __name__ == "__main__":
    main()
