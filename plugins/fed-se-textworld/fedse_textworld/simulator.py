"""The Java simulator of TextWorldExpress: one virtual machine per process, one game per episode."""

import atexit
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from textworld_express.constants import BASEPATH, JAR_PATH

from fedse import MachineError
from fedse.envs import Split

JAVA = "java"
# Starts sooner and takes less memory than the defaults, which are for servers.
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")
# What solves these games walks at random, by a generator that the simulator does not seed.
WALKERS = {"coin": "CoinGoldAgent", "twc": "TWCGoldAgent"}
WALKS = 50
# Py4J sends smaller numbers as `int`, which no constructor of java.util.Random takes.
LONG = 2**40


class Turn(NamedTuple):
    """What the simulator says after an action, or at the beginning."""

    observation: str
    surroundings: str
    inventory: str
    score: float
    solved: bool
    failed: bool
    possible: tuple[str, ...]
    """Every action that can be done, each once, in order of the alphabet."""


class Game:
    """One game with its parameters; it plays one episode at a time."""

    def __init__(self, name: str, params: str) -> None:
        self.place = (os.getpid(), name, params)
        self._jvm = _machine(os.getpid()).jvm
        self._java = self._jvm.textworldexpress.runtime.PythonInterface()
        self.problem = str(self._java.load(name, params) or "")
        """Why the game cannot be made with these parameters; empty = it can."""

    def begin(self, split: Split, seed: int) -> tuple[Turn, str]:
        """The first turn of an episode, and its task."""
        first = _turn(self._java.generateNewGameJSON(seed, split, False))
        return first, str(self._java.getTaskDescription())

    def solution(self, split: Split, seed: int) -> list[str]:
        """The actions by which the simulator solves an episode, always the same; none = it fails.

        The episode in progress is lost.
        """
        _, name, _ = self.place
        if name in WALKERS:
            return self._walk(WALKERS[name], split, seed)
        self._java.generateNewGameJSON(seed, split, True)
        return [str(action) for action in self._java.getGoldActionSequence()]

    def _walk(self, walker: str, split: Split, seed: int) -> list[str]:
        """The actions of the first walk that solves an episode."""
        chance = self._jvm.scala.util.Random(self._jvm.java.util.Random(LONG + seed))
        for _ in range(WALKS):
            self._java.generateNewGameJSON(seed, split, False)
            agent = getattr(self._jvm.textworldexpress.goldagent, walker)(self._java.game())
            walk = agent.mkGoldPath(chance)
            if walk._1():
                return [str(action) for action in walk._2()]
        return []

    def act(self, action: str) -> Turn:
        return _turn(self._java.stepJSON(action))

    def seeds(self, split: Split) -> tuple[int, ...]:
        """The numbers of the fold's episodes."""
        fold = self._java.getSeedsTrain() if split == "train" else self._java.getSeedsTest()
        return tuple(sorted(map(int, fold)))


_idle: defaultdict[tuple[int, str, str], list[Game]] = defaultdict(list)
"""Games that nobody plays: to make one takes some 30 ms, to begin an episode 2 ms."""


def take_game(name: str, params: str) -> Game:
    """A game of this process that nobody else plays."""
    idle = _idle[os.getpid(), name, params]
    return idle.pop() if idle else Game(name, params)


def give_back(game: Game) -> None:
    _idle[game.place].append(game)


@contextmanager
def borrowed(name: str, params: str) -> Iterator[Game]:
    game = take_game(name, params)
    try:
        yield game
    finally:
        give_back(game)


@cache
def problem_of(name: str, params: str) -> str:
    """Why a game cannot be made with these parameters; empty = it can."""
    with borrowed(name, params) as game:
        return game.problem


@cache
def seeds_of(name: str, split: Split) -> tuple[int, ...]:
    """The numbers of a fold's episodes, which no parameter changes."""
    with borrowed(name, "") as game:
        return game.seeds(split)


def _turn(text: str) -> Turn:
    told: dict[str, Any] = json.loads(text)
    return Turn(
        told["observation"],
        told["look"],
        told["inventory"],
        float(told["score"]),
        bool(told["tasksuccess"]),
        bool(told["taskfailure"]),
        tuple(sorted(set(told["validActions"]))),
    )


@cache
def _machine(process: int) -> Any:
    """The virtual machine of this process, which ends with it."""
    if shutil.which(JAVA) is None:
        raise MachineError(
            "the games of TextWorldExpress need Java 8 or newer, and there is no program `java`",
            hint="apt-get install openjdk-17-jre-headless",
        )
    # A token, since whoever reaches the port can run programs; a group of its own, so that Ctrl-C
    # leaves it to this process when it ends.
    port, token, java = launch_gateway(
        classpath=JAR_PATH,
        cwd=BASEPATH,
        javaopts=list(JAVA_OPTIONS),
        die_on_exit=True,
        create_new_process_group=True,
        enable_auth=True,
        return_proc=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token)
    gateway = JavaGateway(gateway_parameters=parameters, java_process=java)
    os.register_at_fork(after_in_child=lambda: _forget(gateway, java))
    atexit.register(_end, process, gateway, java)
    return gateway


def _forget(gateway: Any, java: Any) -> None:
    """A copy of the process neither speaks to the virtual machine nor keeps it alive."""
    gateway._gateway_client.is_connected = False
    java.stdin.close()


def _end(process: int, gateway: Any, java: Any) -> None:
    if process == os.getpid():
        gateway.shutdown()
        java.stdin.close()
        java.wait(timeout=10)
