"""What acts: a batch of dialogues in, one reply each, tokens exactly as sampled."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from fedse.agent.shape import Shape
from fedse.types import Turn

Beat = Callable[[], None]
"""Called whenever work has come a step further, so that a process that hangs can be noticed."""


DECIMALS = 6
"""Of a log-probability that is stored; more would be noise in float32."""


def no_beat() -> None:
    """Nobody watches."""


class Message(NamedTuple):
    """Part of one observation: the user's words, or what a tool returned."""

    role: str
    content: str


class Dialogue(NamedTuple):
    """Everything the agent knows when it has to act: of several roles, what this one knows."""

    system: str
    turns: tuple[Turn, ...]
    observation: str
    messages: tuple[Message, ...] = ()
    """The observation in parts, if the chat template distinguishes them; empty = one user
    message."""
    tools: str = ""
    """The tools that may be called, as a JSON list in the form chat templates expect."""
    shape: Shape | None = None
    """What the reply must look like, for policies that have `keeps_shapes`."""
    role: str = ""
    """The role that has to act; empty = the agent has no roles."""
    thread: int = 0
    """Which of the conversations of this role it is."""


class Reply(NamedTuple):
    """What the agent said. The ids stay empty for policies that have no tokens."""

    text: str
    context_ids: tuple[int, ...] = ()
    action_ids: tuple[int, ...] = ()
    log_chances: tuple[float, ...] = ()
    """Of each token of `action_ids`, at temperature 1; empty = not asked for, or not known."""


class Policy(Protocol):
    """Acts in many episodes at once; equal dialogues and seed give equal replies."""

    name: str
    """Digest of the adapter that acts, or the name of a scripted policy."""

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        """One reply per dialogue; None where the context is full."""
        ...


def keeps_shapes(policy: Policy) -> bool:
    """Whether every reply has the shape that its dialogue asks for."""
    return bool(getattr(policy, "keeps_shapes", False))


class BeatingPolicy:
    """Acts like another policy, and reports each reply."""

    def __init__(self, acting: Policy, beat: Beat) -> None:
        self.name = acting.name
        self.keeps_shapes = keeps_shapes(acting)
        self._acting, self._beat = acting, beat

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        replies = self._acting.act(dialogues, seed=seed)
        self._beat()
        return replies


class ScriptedPolicy:
    """A policy without a model: the action is a function of what the agent knows."""

    def __init__(self, choose: Callable[[Dialogue, int], str], *, name: str = "scripted") -> None:
        self.name = name
        self._choose = choose

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        return [Reply(self._choose(d, seed + i)) for i, d in enumerate(dialogues)]
