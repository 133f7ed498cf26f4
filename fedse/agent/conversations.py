"""The conversations of an episode: an agent of several roles has one per role and thread.

Each is a sequence of tokens of its own, with its own system prompt at its beginning. An agent
without roles has one conversation, the whole episode.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fedse.types import Trajectory, Turn

Speaker = tuple[str, int]
"""A role, and which of its conversations."""


class Conversation(NamedTuple):
    """The turns of one role in one thread, in their order."""

    role: str
    thread: int
    turns: tuple[Turn, ...]

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(i for turn in self.turns for i in (*turn.context_ids, *turn.action_ids))

    @property
    def loss_mask(self) -> tuple[bool, ...]:
        return tuple(learned for turn in self.turns for learned in turn.loss_mask)

    @property
    def opening(self) -> object:
        """Equal for conversations that begin with the same prompt."""
        first = self.turns[0]
        return first.context_ids or first.observation


def speaker_of(turn: Turn) -> Speaker:
    """Whose conversation the turn belongs to."""
    return turn.role, turn.thread


def has_roles(episode: Trajectory) -> bool:
    """Whether it has conversations that are told apart."""
    return any(turn.role or turn.thread for turn in episode.turns)


def conversations_of(episode: Trajectory) -> list[Conversation]:
    """All conversations of the episode, in the order in which they began."""
    found: dict[Speaker, list[Turn]] = {}
    for turn in episode.turns:
        found.setdefault(speaker_of(turn), []).append(turn)
    return [Conversation(*speaker, tuple(turns)) for speaker, turns in found.items()]


def turns_with(turns: Iterable[Turn], role: str, thread: int) -> tuple[Turn, ...]:
    """The turns so far of one conversation."""
    return tuple(turn for turn in turns if speaker_of(turn) == (role, thread))


def weighed(conversations: Iterable[Conversation]) -> Iterator[tuple[Conversation, float]]:
    """Each with its weight: n conversations of a role with one prompt count as one, 1/n each."""
    given = list(conversations)
    alike = Counter((one.role, one.opening) for one in given)
    return ((one, 1 / alike[one.role, one.opening]) for one in given)
