"""Which conversation of an episode a request continues, and where its answer goes.

Without roles the branch of the last answer is the episode. With roles every conversation stays:
the turns of one have equal role and thread. A request continues the conversation that its messages
repeat, if that one has not gone on and nobody else has asked in it; if it has, the request begins
a new thread, with what they have in common as context that is not learned a second time.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fedse.config.roles import unknown_role
from fedse.types import Turn
from fedse_agents.conversation import ShownAndAnswered
from fedse_agents.refused import RequestRefused

Past = tuple[str, str, tuple[ShownAndAnswered, ...]]
"""A system prompt, the tools, and the messages after them."""
Turns = tuple[Turn, ...]


class Place(NamedTuple):
    """Where in the episode a request belongs."""

    role: str
    kept: Turns = ()
    """The turns it continues."""
    known: int = 0
    """How many of its past answers these are."""
    thread: int | None = None
    """The conversation that goes on with the answer; None = a new one begins."""


class Conversations(Protocol):
    """The answers of an episode."""

    turns: Turns
    """What is recorded of it."""

    def find(self, role: str, past: Past) -> Place:
        """Where a request with this past belongs; the longest recorded part of it is kept."""
        ...

    def put(self, place: Place, turn: Turn, past: Past) -> None:
        """The answer is recorded; `past` ends with it."""
        ...

    def leave(self, place: Place) -> None:
        """There will be no answer at this place, so another request may continue there."""
        ...


class LastBranch:
    """The conversations of an agent without roles: the branch of the last answer counts."""

    def __init__(self) -> None:
        self.turns: Turns = ()
        self._after: dict[Past, Turns] = {}

    def find(self, role: str, past: Past) -> Place:
        system, tools, answers = past
        for known in range(len(answers), 0, -1):
            kept = self._after.get((system, tools, answers[:known]))
            if kept is not None:
                return Place(role, kept, known)
        return Place(role)

    def put(self, place: Place, turn: Turn, past: Past) -> None:
        self.turns = self._after[past] = (*place.kept, turn)

    def leave(self, place: Place) -> None:
        pass


class Threads:
    """The conversations of an agent with roles: all of them count."""

    def __init__(self) -> None:
        self.turns: Turns = ()
        self._after: defaultdict[tuple[str, Past], list[Turns]] = defaultdict(list)
        self._newest: dict[tuple[str, int], Turns] = {}
        """Role and thread -> the conversation so far."""
        self._asked: set[tuple[str, int]] = set()
        """Where an answer is being waited for."""

    def find(self, role: str, past: Past) -> Place:
        system, tools, answers = past
        for known in range(len(answers), 0, -1):
            begun = self._after.get((role, (system, tools, answers[:known])), [])
            free = [kept for kept in begun if self._goes_on(kept)]
            if free:
                self._asked.add((role, free[0][-1].thread))
                return Place(role, free[0], known, free[0][-1].thread)
            if begun:
                return Place(role, begun[0], known)
        return Place(role)

    def put(self, place: Place, turn: Turn, past: Past) -> None:
        thread, kept, again = place.thread, place.kept, Turns()
        if thread is None:
            thread = sum(role == place.role for role, _ in self._newest)
            changed = {"thread": thread, "learned": False}
            kept = again = tuple(one.model_copy(update=changed) for one in kept)
        said = turn.model_copy(update={"role": place.role, "thread": thread})
        self.turns = (*self.turns, *again, said)
        self._newest[place.role, thread] = (*kept, said)
        self._after[place.role, past].append((*kept, said))
        self.leave(place)

    def leave(self, place: Place) -> None:
        if place.thread is not None:
            self._asked.discard((place.role, place.thread))

    def _goes_on(self, kept: Turns) -> bool:
        """Whether nothing was said or asked after these turns of a conversation."""
        name = (kept[-1].role, kept[-1].thread)
        return name not in self._asked and len(self._newest[name]) == len(kept)


def require_role(model: str, roles: Sequence[str]) -> str:
    """The role that a request is for, which is the model's name; none if the agent has none."""
    if problem := unknown_role(model, roles):
        raise RequestRefused(404, "model_not_found", problem, param="model")
    return model if roles else ""
