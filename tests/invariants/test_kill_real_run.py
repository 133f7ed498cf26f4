"""kill -9 at the six points of the threat model, on a real run of the local driver.

The model, the training and the buffer are real; the process is killed by the kernel in the middle
of round 2 and the run is then resumed in this process. Besides the adapter, the games are compared:
a resumed run plays what is left and nothing twice.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import needs

needs("torch")

from fedse.adapters.base import spec_of
from fedse.config.judging import EvalSection
from fedse.config.schema import BufferSection, ClientSection, Config, RolloutSection
from fedse.config.schema import RunSection as RunSection
from fedse.config.training import TrainSection
from fedse.drivers.run import run_local
from fedse.envs.base import Env, Step, make_env
from fedse.site import open as opening
from fedse.store.run import Run
from fedse.types import Adapter, Task

pytestmark = pytest.mark.slow

POINTS = {
    # Games that are half played are begun again, so it is killed when the first four have ended.
    "client in rollout": ("rollout.progress", {"round": 2, "played": 4}),
    "client in training": ("train.started", {"round": 2}),
    "client in upload": ("upload.started", {"round": 2}),
    "server in aggregation": ("aggregate.started", {"round": 2}),
    "server before commit": ("commit.started", {"round": 2}),
    "server after commit": ("round.committed", {"round": 2}),
}
CONFIG = Config(
    run=RunSection(rounds=3),
    rollout=RolloutSection(episodes=8, batch=4, context=512, new_tokens=6),
    buffer=BufferSection(demonstrations=4),
    # The optimiser goes on from round to round, so that what it remembers must survive as well.
    train=TrainSection(lr=2e-3, batch=4, optimizer="kept", schedule="run", batches="by-length"),
    eval=EvalSection(episodes=2, every=9),
    clients=(
        ClientSection(name="a", env="maze", options={"prompt": "short"}),
        ClientSection(name="b", env="wordle", options={"prompt": "short", "words": "small"}),
    ),
)


def open_run(path: Path, **options: object) -> Run:
    return Run(path, CONFIG, spec_of(CONFIG), clock=time.time, **options)


def counting(games: Path) -> Callable[[str, dict[str, object]], Env]:
    """Makes worlds that write down every game they are asked to begin."""

    def make(name: str, options: dict[str, object]) -> Env:
        env = make_env(name, options)
        reset = env.reset

        def counted(task: Task, *, seed: int) -> Step:
            with games.open("a") as file:
                file.write(f"{task.env} {task.id} {seed}\n")
            return reset(task, seed=seed)

        env.reset = counted
        return env

    return make


KILLED_RUNS = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_kill_real_run import POINTS, counting, open_run, opening, run_local
# Before any model is opened, so that the killed processes need not import these one by one.
import fedse.agent.hf, fedse.train.lora
from fedse.method import progress
progress.BETWEEN_TURNS = 0.0  # as on a slow machine, where every turn is told

def until(event, facts, folder):
    opening.make_env = counting(folder / "games")
    def observe(told, also):
        if told == event and facts.items() <= also.items():
            os.kill(os.getpid(), signal.SIGKILL)
    run_local(open_run(folder / "run", observers=[observe]))

for point, at in POINTS.items():
    folder = Path(sys.argv[2], point)
    folder.mkdir()
    child = os.fork()
    if not child:
        try:
            until(*at, folder)
        finally:
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Ended(NamedTuple):
    adapter: str
    games: list[str]


def to_the_end(path: Path, games: Path) -> Ended:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "make_env", counting(games))
        final: Adapter = run_local(open_run(path))
    return Ended(final.digest, sorted(games.read_text().splitlines()))


def test_the_resumed_run_ends_with_the_same_adapter_and_the_same_games(tmp_path: Path):
    whole = tmp_path / "whole"
    whole.mkdir()
    undisturbed = to_the_end(whole / "run", whole / "games")
    command = [sys.executable, "-c", KILLED_RUNS, str(Path(__file__).parent), str(tmp_path)]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=500)
    codes = [int(line) for line in killed.stdout.splitlines()]
    assert codes == [-signal.SIGKILL] * len(POINTS), killed.stderr
    committed = {point: open_run(tmp_path / point / "run").committed for point in POINTS}
    assert committed == {**dict.fromkeys(POINTS, 1), "server after commit": 2}
    for point in POINTS:
        folder = tmp_path / point
        assert to_the_end(folder / "run", folder / "games") == undisturbed, point
