"""What the service records: sessions, the turns in them, and what was said about them later."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Value = bool | float | str | list[Any] | dict[str, Any]
"""Of a metric; a text, or JSON, only for comments and demonstrations."""


@dataclass(frozen=True, slots=True)
class NewSession:
    """The first request of a session, as the gateway understood it."""

    session: str
    person: str | None
    """The name that the application gave; it is used here and stored nowhere."""
    application: str
    arm: str
    adapter: str
    learn: bool
    share: float = 0.0
    """Of the candidate when the session began; 0 = there was none."""


class Pin(NamedTuple):
    """What was decided at the beginning of a session and stays so."""

    session: str
    arm: str
    adapter: str
    learn: bool
    """Whether its texts and tokens are stored, to be learned from."""
    held_out: bool
    """Whether it is for evaluation only."""


class Guards(NamedTuple):
    """Facts about one turn that show whether an adapter misbehaves."""

    invalid_calls: int = 0
    asked: bool = False
    """Whether the reply asks the person something."""
    refused: bool = False
    error: str = ""
    """A short code such as `engine`; empty = none."""
    seconds: float = 0.0
    """From the request to the end of the reply."""


NO_GUARDS = Guards()


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One request that the model answered."""

    inference: str
    session: str
    at: float
    """Seconds since 1970."""
    arm: str
    adapter: str
    """Digest of the adapter that sampled it."""
    template: str
    """Digest of the chat template."""
    sampling: Mapping[str, Any]
    prompt_ids: Sequence[int]
    """The whole prompt."""
    sampled_ids: Sequence[int]
    log_probs: Sequence[float]
    observation: str
    """What is new in the request since the last reply."""
    reply: str
    """As sampled, with its tool calls."""
    finish: str
    guards: Guards = NO_GUARDS
    earlier_shown: tuple[str, ...] = ()
    """Texts of the earlier messages but for the agent's own. What is private there is recognised in
    this turn too; they are not stored."""
    earlier_said: tuple[str, ...] = ()
    """Texts of the agent's earlier messages, for the same purpose."""


@dataclass(frozen=True, slots=True)
class FeedbackRow:
    """One value that somebody, or a verifier, gave to a session or to one turn of it."""

    metric: str
    value: Value
    at: float
    """When it arrived, in seconds since 1970."""
    session: str | None = None
    inference: str | None = None
    """Exactly one of the two is given."""
    tags: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    """The caller's idempotency key; without one, equal content is the same feedback."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    session: str
    first: float
    last: float
    """When its newest turn was, in seconds since 1970."""
    person: str | None
    """A keyed digest of the name."""
    application: str
    arm: str
    adapter: str
    share: float
    learn: bool
    held_out: bool
    ended: float | None
    """When the application said that it had ended."""
    turns: int

    @property
    def pin(self) -> Pin:
        return Pin(self.session, self.arm, self.adapter, self.learn, self.held_out)


@dataclass(frozen=True, slots=True)
class StoredTurn:
    inference: str
    session: str
    number: int
    """Counted from 1."""
    at: float
    arm: str
    adapter: str
    template: str
    finish: str
    guards: Guards
    prompt_tokens: int
    sampled_tokens: int
    parent: int | None
    """The turn that its prompt continues, token for token; None = it continues none."""
    redacted: bool
    """Whether anything in it or before it in the session was replaced by a pseudonym."""
    learned: bool
    """False = the agent added something private of its own."""
    sampling: Mapping[str, Any]
    observation: str
    reply: str
    given_ids: tuple[int, ...]
    """What follows the tokens of the parent in the prompt; without a parent, the whole prompt."""
    sampled_ids: tuple[int, ...]
    log_probs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StoredFeedback:
    id: str
    session: str
    inference: str | None
    metric: str
    value: Value
    at: float
    tags: Mapping[str, str]


class Conversation(NamedTuple):
    """A session with all that is on record about it."""

    session: StoredSession
    turns: Sequence[StoredTurn]
    feedback: Sequence[StoredFeedback]
