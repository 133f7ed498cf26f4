"""The three workflows as environments, which ask the role that has to act and can show how.

With `roles = false` one agent without roles does the same work in one conversation.
"""

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from signals import (
    HARBOURS,
    WAYS,
    is_barred,
    is_good,
    orders,
    plan_of,
    reading,
    signals,
    way_of,
)

from fedse.envs.base import Acting, Step
from fedse.envs.options import require_one_of
from fedse.errors import EnvError
from fedse.types import Split, Task

ALONE = "signals"
"""The prompt of an agent without roles."""


class Ask(NamedTuple):
    """What a role is shown, in which of its conversations, and what a competent one answers."""

    role: str
    shown: str
    expert: str
    thread: int = 0


Workflow = Generator[Ask, str, bool]
"""Asks, gets the answers without surrounding blanks, and returns whether the task is done."""


def evaluator_optimiser(signal: str) -> Workflow:
    """A writer proposes a way; a critic, who sees the watch's flag, accepts it (y) or not (n)."""
    flag, watch = signal.split()
    shown = flag
    for best in WAYS[flag]:
        way = yield Ask("writer", shown, best)
        verdict = "n" if is_barred(watch, way) else "y"
        said = yield Ask("critic", f"{watch} {way}", verdict)
        if said != "n":
            return said == "y" and is_good(flag, watch, way)
        shown = said
    return False


def voting(signal: str, voters: int = 3) -> Workflow:
    """Voters read the same signal, each for itself; what most of them say is done."""
    right = reading(signal.split())
    votes = []
    for voter in range(voters):
        votes.append((yield Ask("voter", signal, right, thread=voter)))
    return max(votes, key=votes.count) == right


def orchestrator_workers(signal: str) -> Workflow:
    """An orchestrator says how each flag is to be read, workers read them, and it answers."""
    head, *flags = signal.split()
    plan = yield Ask("orchestrator", signal, plan_of(head))
    read = []
    for worker, (flag, how) in enumerate(zip(flags, plan.split(), strict=False)):
        read.append((yield Ask("worker", f"{how} {flag}", way_of(flag, how), thread=worker)))
    answer = yield Ask("orchestrator", " ".join(read), " ".join(read))
    return answer == orders(signal)


class Kind(NamedTuple):
    """One workflow and its tasks."""

    play: Callable[[str], Workflow]
    flags: int
    roles: tuple[str, ...]
    turns: int


KINDS = {
    "evaluator-optimiser": Kind(evaluator_optimiser, 2, ("writer", "critic"), 4),
    "voting": Kind(voting, 2, ("voter",), 3),
    "orchestrator-workers": Kind(orchestrator_workers, 3, ("orchestrator", "worker"), 4),
}


class Signals:
    """An environment (fedse.RolesEnv) with an expert for every role."""

    def __init__(self, *, kind: str, harbour: str = "north", roles: bool = True) -> None:
        require_one_of("signals", "kind", kind, tuple(KINDS))
        require_one_of("signals", "harbour", harbour, tuple(HARBOURS))
        self.name, self.system_prompt = "signals", ALONE
        self._kind, self._roles = KINDS[kind], roles
        self.role_prompts = {role: role for role in self._kind.roles} if roles else {}
        self.max_turns = self._kind.turns
        self._playing: Workflow | None = None
        self._tasks = {split: _tasks(kind, harbour, split) for split in ("train", "test")}

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks[split]

    def reset(self, task: Task, *, seed: int) -> Step:
        play = voting_alone if self._kind.play is voting and not self._roles else self._kind.play
        self._playing = play(task.id.partition("/")[2])
        self._ask = next(self._playing)
        return Step(self._shown())

    def step(self, action: str) -> Step:
        if self._playing is None:
            raise EnvError("signals: no episode is open", hint="call reset() before step()")
        try:
            self._ask = self._playing.send(action.strip())
        except StopIteration as end:
            self._playing = None
            return Step("", reward=float(end.value), done=True, success=end.value)
        return Step(self._shown())

    def acting(self) -> Acting:
        return Acting(self._ask.role, self._ask.thread)

    def actions(self) -> Sequence[str]:
        return ("y", "n", "up", "down", "left", "right")

    def expert(self) -> str:
        return self._ask.expert

    def close(self) -> None: ...

    def _shown(self) -> str:
        return self._ask.shown if self._roles else f"{self._ask.role} {self._ask.shown}"


def voting_alone(signal: str) -> Workflow:
    """Without other voters, the only one decides."""
    return voting(signal, voters=1)


def _tasks(kind: str, harbour: str, split: Split) -> list[Task]:
    """Held-out signals are the same for all harbours."""
    where = harbour if split == "train" else "sea"
    given = signals(harbour, split, KINDS[kind].flags)
    return [Task(env="signals", id=f"{where}/{one}", split=split) for one in given]
