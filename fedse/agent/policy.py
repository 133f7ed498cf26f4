"""What acts: a batch of dialogues in, one reply each, tokens exactly as sampled."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from fedse.types import Turn


class Dialogue(NamedTuple):
    """All an agent knows when it must act."""

    system: str
    turns: tuple[Turn, ...]
    observation: str


class Reply(NamedTuple):
    """What the agent said. The ids stay empty for policies that have no tokens."""

    text: str
    context_ids: tuple[int, ...] = ()
    action_ids: tuple[int, ...] = ()


class Policy(Protocol):
    """Acts in many episodes at once; equal dialogues and seed give equal replies."""

    name: str
    """Digest of the adapter that acts, or the name of a scripted policy."""

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        """One reply per dialogue; None where the context is full."""
        ...


class ScriptedPolicy:
    """A policy without a model: the action is a function of what the agent knows."""

    def __init__(self, choose: Callable[[Dialogue, int], str], *, name: str = "scripted") -> None:
        self.name = name
        self._choose = choose

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        return [Reply(self._choose(d, seed + i)) for i, d in enumerate(dialogues)]
