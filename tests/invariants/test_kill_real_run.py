"""kill -9 at the six points of the threat model, on a real run of the local driver.

The model, the training and the buffer are real; the process is killed by the kernel in the middle
of round 2 and the run is then resumed in this process.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from fedse.config import Buffer, Client, Config, Eval, Rollout, Train
from fedse.config import Run as RunSection
from fedse.local import run_local
from fedse.run import Run
from fedse.site.open import spec_of

pytestmark = pytest.mark.slow

POINTS = {
    "client in rollout": "rollout.progress",
    "client in training": "train.started",
    "client in upload": "upload.started",
    "server in aggregation": "aggregate.started",
    "server before commit": "commit.started",
    "server after commit": "round.committed",
}
CONFIG = Config(
    run=RunSection(rounds=3),
    rollout=Rollout(episodes=8, batch=4, context=512, new_tokens=6),
    buffer=Buffer(demonstrations=4),
    train=Train(lr=2e-3, batch=4),
    eval=Eval(episodes=2, every=9),
    clients=(
        Client(name="a", env="maze", options={"prompt": "short"}),
        Client(name="b", env="wordle", options={"prompt": "short", "words": "small"}),
    ),
)


def open_run(path: Path, **options: object) -> Run:
    return Run(path, CONFIG, spec_of(CONFIG), clock=time.time, **options)


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_kill_real_run import open_run, run_local
def observe(event, facts):
    if event == sys.argv[2] and facts.get("round") == 2:
        os.kill(os.getpid(), signal.SIGKILL)
run_local(open_run(Path(sys.argv[1]), observers=[observe]))
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run_local(open_run(tmp_path_factory.mktemp("whole") / "run")).digest


@pytest.mark.parametrize("point", POINTS)
def test_the_resumed_run_ends_with_the_same_adapter(point: str, tmp_path: Path, undisturbed: str):
    path = tmp_path / "run"
    command = [sys.executable, "-c", CHILD, str(path), POINTS[point], str(Path(__file__).parent)]
    killed = subprocess.run(command, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    committed = open_run(path).committed
    assert committed == (2 if point == "server after commit" else 1)
    assert run_local(open_run(path)).digest == undisturbed
