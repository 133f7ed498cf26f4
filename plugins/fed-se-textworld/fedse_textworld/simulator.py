"""The Java simulator of TextWorldExpress: one virtual machine per process, one game per episode."""

import json
import os
import shutil
from functools import cache
from typing import Any, NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from textworld_express.constants import BASEPATH, JAR_PATH

from fedse import MachineError
from fedse.envs import Split

JAVA = "java"


class Turn(NamedTuple):
    """What the simulator says after an action, or at the beginning."""

    observation: str
    surroundings: str
    inventory: str
    score: float
    solved: bool
    failed: bool
    valid_actions: tuple[str, ...]


class Game:
    """One game with its parameters; it plays one episode at a time."""

    def __init__(self, name: str, params: str) -> None:
        self._java = _machine(os.getpid()).jvm.textworldexpress.runtime.PythonInterface()
        self.problem = str(self._java.load(name, params) or "")
        """Why the game cannot be made with these parameters; empty = it can."""

    def seeds(self, split: Split) -> list[int]:
        """The numbers of the fold's episodes."""
        fold = self._java.getSeedsTrain() if split == "train" else self._java.getSeedsTest()
        return sorted(map(int, fold))

    def begin(self, split: Split, seed: int) -> tuple[Turn, str, list[str]]:
        """The first turn of an episode, its task, and the actions that solve it."""
        first = _turn(self._java.generateNewGameJSON(seed, split, True))
        gold = [str(action) for action in self._java.getGoldActionSequence()]
        return first, str(self._java.getTaskDescription()), gold

    def act(self, action: str) -> Turn:
        return _turn(self._java.stepJSON(action))


def _turn(text: str) -> Turn:
    told: dict[str, Any] = json.loads(text)
    return Turn(
        told["observation"],
        told["look"],
        told["inventory"],
        float(told["score"]),
        bool(told["tasksuccess"]),
        bool(told["taskfailure"]),
        tuple(sorted(told["validActions"])),
    )


@cache
def _machine(process: int) -> Any:
    """The virtual machine of this process, which ends with it."""
    if shutil.which(JAVA) is None:
        raise MachineError(
            "the games of TextWorldExpress need Java 8 or newer, and there is no program `java`",
            hint="apt-get install openjdk-17-jre-headless",
        )
    port, java = launch_gateway(
        classpath=JAR_PATH, cwd=BASEPATH, die_on_exit=True, return_proc=True
    )
    return JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auto_field=True), java_process=java
    )
