"""The nouns of the method: frozen, content-addressed, free of behaviour that needs a library.

Task -rollout-> Trajectory -select-> Trajectory -buffer-> Trajectory -train-> Adapter
-client_round-> ClientUpdate -aggregate-> Adapter
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from operator import not_
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from fedse.role_figures import RoleFit

Split = Literal["train", "test"]
Purpose = Literal["train", "validation", "home", "test"]
"""What a client does with a task. Of its own tasks most are learned from (train), some decide what
is accepted and chosen (validation), some are reported (home); what nobody has is reported (test).
What is reported decides nothing."""
Outcome = Literal["success", "failure", "truncated", "broken"]
FloatVector = NDArray[np.float32]
Clock = Callable[[], float]
"""Returns the time in seconds."""
CLIENT_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"


class Record(BaseModel):
    """A value that reaches a disk: frozen, unknown fields refused, equal content = equal digest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def digest(self) -> str:
        return digest_of(self.model_dump(mode="json"))


def canonical_json(value: object) -> bytes:
    """The one way to write `value` as JSON: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest_of(value: object) -> str:
    """The sha256 of `value` as canonical JSON."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


class Task(Record):
    """One problem of one environment; the same id is always the same problem."""

    env: str
    id: str
    split: Split


class Turn(Record):
    """What the agent was shown, what it said, and the exact tokens of both."""

    observation: str
    action: str
    """Verbatim as sampled, thought included."""
    context_ids: tuple[int, ...] = ()
    """Tokens the model was given since its last action; never learned from."""
    action_ids: tuple[int, ...] = ()
    """Tokens the model sampled, its end token included; the only ones learned from."""
    learned: bool = True
    """Whether the action is learned from; false if the agent added something private of its own."""
    log_chances: Annotated[tuple[float, ...], Field(exclude_if=not_)] = ()
    """Of the tokens of `action_ids` when they were drawn, at temperature 1; empty = not known."""
    role: Annotated[str, Field(exclude_if=not_)] = ""
    """The role of the agent that acted; empty = the agent has no roles."""
    thread: Annotated[int, Field(exclude_if=not_)] = 0
    """Which of the conversations of this role in the episode the turn belongs to."""

    @property
    def loss_mask(self) -> tuple[bool, ...]:
        """True exactly for the tokens of what the agent said, if that is learned (paper: all)."""
        return (False,) * len(self.context_ids) + (self.learned,) * len(self.action_ids)


def _speaker(turn: Turn) -> tuple[object, ...]:
    return (turn.role, turn.thread) if turn.role or turn.thread else ()


class Trajectory(Record):
    """One episode. `truncated` and `broken` are not the agent's doing and never a success."""

    task: Task
    seed: int
    turns: tuple[Turn, ...]
    outcome: Outcome
    reward: float
    policy: str
    """Digest of the adapter that acted, or the name of a scripted policy."""
    round: int
    """The round it was played in; 0 for demonstrations."""
    error: str | None = None
    invalid_turns: int = 0
    """Replies in which the environment found no action."""
    stand_ins: Annotated[tuple[tuple[str, str], ...], Field(exclude_if=not_)] = ()
    """What was made up in place of something private, and of which kind that was."""
    likeness: Annotated[str, Field(exclude_if=not_)] = ""
    """The content digest without regard to stand-ins, if there are any."""
    role_rewards: Annotated[tuple[tuple[str, float], ...], Field(exclude_if=not_)] = ()
    """Roles with a reward of their own, sorted; the others have the episode's."""

    @property
    def success(self) -> bool:
        return self.outcome == "success"

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Of all turns in a row; what one role was given, see `fedse.agent.conversations`."""
        return tuple(i for turn in self.turns for i in (*turn.context_ids, *turn.action_ids))

    @property
    def loss_mask(self) -> tuple[bool, ...]:
        return tuple(learned for turn in self.turns for learned in turn.loss_mask)

    @property
    def content_digest(self) -> str:
        """Equal for equal turns in one task, at any client; in the buffer one element of a set."""
        texts = [(t.observation, t.action, *_speaker(t)) for t in self.turns]
        return self.likeness or digest_of([self.task.model_dump(mode="json"), texts])


Lessons = Sequence[Trajectory]


class TensorSpec(Record):
    name: str
    shape: tuple[int, ...]


class AdapterSpec(Record):
    """What every adapter of a federation must look like; agreed when a site joins, never sent.

    An adapter's bytes are a safetensors file whose header follows from this spec alone, so a
    received header is compared, not interpreted.
    """

    base: str
    base_digest: str
    rank: int
    alpha: float
    target_modules: tuple[str, ...]
    tensors: tuple[TensorSpec, ...]
    """Sorted by name; if there are blocks, every name begins with its block's, then a slash."""
    blocks: Annotated[tuple[str, ...], Field(exclude_if=not_)] = ()
    """The parts of the adapter, one per role or group of roles, each laid out like an adapter of
    its own; empty = the adapter has one part."""

    @property
    def identity(self) -> str:
        """Equal if adapters may be merged: same base weights and layout, under whatever name."""
        return digest_of(self.model_dump(mode="json", exclude={"base"}))

    @property
    def scaling(self) -> float:
        return self.alpha / self.rank

    @cached_property
    def size(self) -> int:
        """Number of parameters."""
        return sum(prod(t.shape) for t in self.tensors)

    @cached_property
    def slices(self) -> Mapping[str, slice]:
        ends = np.cumsum([0, *(prod(t.shape) for t in self.tensors)]).tolist()
        spans = (slice(a, b) for a, b in pairwise(ends))
        return dict(zip((t.name for t in self.tensors), spans, strict=True))

    @cached_property
    def header(self) -> bytes:
        entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
        for tensor in self.tensors:
            span = self.slices[tensor.name]
            entries[tensor.name] = {
                "dtype": "F32",
                "shape": list(tensor.shape),
                "data_offsets": [span.start * 4, span.stop * 4],
            }
        text = json.dumps(entries, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)  # safetensors aligns the data at 8 bytes
        return len(text).to_bytes(8, "little") + text

    @property
    def nbytes(self) -> int:
        return len(self.header) + 4 * self.size


@dataclass(frozen=True, eq=False)
class Adapter:
    """LoRA factors as one read-only float32 vector laid out by `spec`."""

    spec: AdapterSpec
    vector: FloatVector

    def __post_init__(self) -> None:
        if self.vector.shape != (self.spec.size,) or self.vector.dtype != np.float32:
            raise ValueError(f"expected {self.spec.size} float32, got {self.vector.shape}")
        self.vector.flags.writeable = False

    def to_bytes(self) -> bytes:
        """The adapter as a safetensors file; what is stored, sent and hashed."""
        return self.spec.header + self.vector.astype("<f4", copy=False).tobytes()

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def tensors(self) -> dict[str, FloatVector]:
        """Each factor under its PEFT name, as a view."""
        slices = self.spec.slices
        return {t.name: self.vector[slices[t.name]].reshape(t.shape) for t in self.spec.tensors}


class Fitted(NamedTuple):
    """The adapter after training, and how it went."""

    adapter: Adapter
    loss: float
    steps: int
    tokens: int = 0
    """Tokens of the lessons of all steps; 0 = not counted."""
    padded: int = 0
    """Tokens that were computed for them, padding included."""
    moments: bytes | None = None
    """AdamW's state afterwards, if the next fit goes on with it; it never leaves the site."""
    longest: float = 0.0
    """Norm of the longest gradient that noise is to hide, 0 = none; it never leaves the site."""
    roles: Mapping[str, RoleFit] = {}
    """How it went for each role, if the agent has roles and this is known."""


class ClientStats(Record):
    """Everything a client reports about its data: numbers only."""

    played: int = 0
    succeeded: int = 0
    broken: int = 0
    truncated: int = 0
    """Episodes that ended at the turn cap or the context's end."""
    replies: int = 0
    """The agent's replies in these episodes."""
    unread: int = 0
    """Replies in which the environment found no action."""
    cut: int = 0
    """Replies as long as rollout.new_tokens allows, so most likely cut off."""
    groups: int = 0
    """Tasks played more than once, if the loss compares games of one task."""
    mixed: int = 0
    """Of these, the tasks whose games had different rewards."""
    added: int = 0
    """Successful episodes that were new to the buffer."""
    buffered: int = 0
    """Episodes in the buffer after this round; what was trained on."""
    loss: float | None = None
    """Mean training loss of the last epoch, nats per agent token."""
    steps: int = 0
    eval_played: int = 0
    eval_succeeded: int = 0
    """Successes in tasks that no client has, with the adapter it was sent, before training."""
    home_played: int = 0
    home_succeeded: int = 0
    """The same in the client's own tasks that it does not learn from."""
    personal_played: int = 0
    personal_succeeded: int = 0
    """Successes in tasks that no client has, with the client's personal adapter."""
    personal_home_played: int = 0
    personal_home_succeeded: int = 0
    """The same in the client's own tasks that it does not learn from."""
    validation_played: int = 0
    validation_succeeded: int = 0
    """Successes in the validation tasks, with the adapter the client was sent."""
    entropy: float = 0.0
    """Shannon entropy of the actions of this round's episodes, nats."""
    distinct: float = 0.0
    """Share of this round's episodes that do not repeat another one action for action."""
    rollout_seconds: float = 0.0
    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    roles: Annotated[tuple[float, ...], Field(exclude_if=not_)] = ()
    """`fedse.role_figures.RoleStats` of each role of `roles.names`, one after another."""


@dataclass(frozen=True)
class ClientUpdate:
    """All that leaves a client: no field can hold text."""

    stats: ClientStats
    adapter: Adapter | None
    """None = no vote: the client had nothing to learn from."""
