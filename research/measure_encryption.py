"""How much time and disk it costs to encrypt the episodes of a site.

    python -m research.measure_encryption --episodes 10000 --repeats 3 --longer 5

Episodes are of the support desk, each about another task, with as many turns as the expert needs,
or `--longer` times as many: an agent's own episodes also hold its tokens.
Added in rounds of 32, as a site does; read one by one, as training does. Seconds are CPU seconds of
this process, the least of all repeats, so that other work on the machine counts little.
"""

import json
import time
from argparse import ArgumentParser
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fedse.envs.base import make_env
from fedse.method.rollout import Game, demonstrate
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import encrypt_buffer
from fedse.store.sealing import UNSEALED, KeyedSeal, Seal
from fedse.types import Task, Trajectory

PER_ROUND = 32
KEY = bytes(32)


class Measured(NamedTuple):
    add_seconds: float
    read_seconds: float
    bytes: int


def episodes_of_the_desk(count: int, longer: int) -> list[Trajectory]:
    """So many different episodes: those of the expert, each with a number of its own."""
    env = make_env("desk", {})
    tasks = env.tasks("train")
    shown = list(demonstrate([Game(task, 0) for task in tasks], lambda: make_env("desk", {})))
    return [
        one.model_copy(
            update={
                "task": Task(env="desk", id=f"{one.task.id}-{number}", split="train"),
                "turns": one.turns * longer,
                "round": 1 + number // PER_ROUND,
            }
        )
        for number, one in ((n, shown[n % len(shown)]) for n in range(count))
    ]


def measure(folder: Path, seal: Seal, episodes: list[Trajectory]) -> Measured:
    path = folder / "buffer.db"
    with closing(Buffer(path, seal=seal, subject_of=lambda task: task.id[:12])) as buffer:
        begun = time.process_time()
        for start in range(0, len(episodes), PER_ROUND):
            buffer.add(episodes[start : start + PER_ROUND], experiment="e")
        added = time.process_time()
        assert sum(len(lesson.turns) for lesson in buffer.lessons("e", len(episodes)))
        read = time.process_time()
    return Measured(added - begun, read - added, path.stat().st_size)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--longer", type=int, default=1)
    given = parser.parse_args()
    episodes = episodes_of_the_desk(given.episodes, given.longer)
    mean = sum(len(one.model_dump_json()) for one in episodes) / len(episodes)
    told: dict[str, object] = {"episodes": len(episodes), "mean_bytes": round(mean)}
    best: dict[str, Measured] = {}
    for kind, seal in (("plain", UNSEALED), ("sealed", KeyedSeal(KEY))):
        found = []
        for _ in range(given.repeats):
            with TemporaryDirectory() as name:
                found.append(measure(Path(name), seal, episodes))
        best[kind] = Measured(*map(min, zip(*found, strict=True)))
        told[kind] = best[kind]._asdict()
    plain, sealed = best["plain"], best["sealed"]
    told["ratio"] = Measured(*(b / a for a, b in zip(plain, sealed, strict=True)))._asdict()
    with TemporaryDirectory() as name:
        measure(Path(name), UNSEALED, episodes)
        begun = time.process_time()
        encrypt_buffer(Path(name) / "buffer.db", Path(name) / "key")
        told["encrypt_in_place_seconds"] = time.process_time() - begun
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
