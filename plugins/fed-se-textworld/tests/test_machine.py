"""One virtual machine per process: it ends with it, and copies of the process have their own."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.needs import needs

needs("java", "py4j", "textworld_express")

from fedse_textworld import simulator
from fedse_textworld.env import TextWorld

GAMES = ["coin", "twc"]
"""Those whose solutions the simulator finds by chance."""


def machine() -> int:
    """The number of the process of this process's virtual machine."""
    return int(simulator._machine(os.getpid()).java_process.pid)


def is_running(process: int) -> bool:
    """Whether there is such a process that has not ended."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for_end(process: int) -> None:
    until = time.monotonic() + 60
    while is_running(process) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(process)


def all_played() -> tuple[int, list[str]]:
    """The virtual machine, and every action of a few episodes of the expert."""
    env = TextWorld(games=GAMES, tasks_per_kind=[1, 1])
    said: list[str] = []
    for task in env.tasks("train"):
        step = env.reset(task, seed=0)
        while not step.done:
            said.append(env.expert())
            step = env.step(said[-1])
        assert step.success
    return machine(), said


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_another_process_plays_the_same_with_its_own_machine(way: str) -> None:
    own, said = all_played()
    env = TextWorld(tasks_per_kind=[1, 1])
    open_here = env.reset(env.tasks("train")[0], seed=0)
    with get_context(way).Pool(1) as pool:
        theirs, also_said = pool.apply(all_played)
    assert said == also_said
    assert own != theirs
    wait_for_end(theirs)
    assert machine() == own
    step = open_here
    while not step.done:
        step = env.step(env.expert())
    assert step.success


def test_the_machine_ends_with_a_process_that_is_killed() -> None:
    told = (
        "import os, time; from fedse_textworld import simulator; "
        "print(simulator._machine(os.getpid()).java_process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", told], stdout=subprocess.PIPE) as child:
        assert child.stdout
        java = int(child.stdout.readline())
        assert is_running(java)
        child.send_signal(signal.SIGKILL)
    wait_for_end(java)


def test_many_episodes_are_open_at_once_and_their_games_are_used_again() -> None:
    envs = [TextWorld(games=GAMES[place % 2], tasks_per_kind=[8, 1]) for place in range(16)]
    steps = [env.reset(env.tasks("train")[n // 2], seed=0) for n, env in enumerate(envs)]
    assert len({id(env._episode.game) for env in envs if env._episode}) == len(envs)
    while not all(step.done for step in steps):
        steps = [
            step if step.done else env.step(env.expert())
            for env, step in zip(envs, steps, strict=True)
        ]
    assert all(step.success for step in steps)
    idle = simulator._idle[os.getpid(), "coin", ""]
    before = {id(game) for game in idle}
    envs[0].reset(envs[0].tasks("train")[0], seed=0)
    assert envs[0]._episode is not None
    assert id(envs[0]._episode.game) in before
    envs[0].close()
    assert {id(game) for game in idle} == before
