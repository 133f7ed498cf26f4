"""Trajectories -> padded tensors, and the loss: the agent's own tokens, nothing else."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fedse.agent.conversations import conversations_of, has_roles
from fedse.types import Trajectory

IGNORED = -100


class Tokenized(Protocol):
    """An episode as tokens: a `Trajectory` whose turns have them, or a `Lesson`."""

    @property
    def token_ids(self) -> tuple[int, ...]: ...

    @property
    def loss_mask(self) -> tuple[bool, ...]: ...

    @property
    def success(self) -> bool: ...


T = TypeVar("T", bound=Tokenized)
B = TypeVar("B", bound=Tokenized, covariant=True)


class Batches(Protocol[B]):
    """The lessons of each step, one step after another, and how many steps there are."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sequence[B]]: ...


class LessonOrigin(NamedTuple):
    """How an episode was played."""

    task: str
    reward: float
    policy: str
    """Digest of the adapter that acted, or the name of a scripted policy."""
    log_chances: tuple[float, ...]
    """With which each token was drawn, 0 for those that were given; empty = not known."""


class Part(NamedTuple):
    """One conversation of an episode as tokens: a sequence of its own."""

    token_ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    success: bool
    role: str
    weight: float = 1.0
    """Of each of its tokens in the loss."""


class Lesson(NamedTuple):
    """The tokens of one episode, and which of them the agent sampled; no text."""

    token_ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    success: bool = True
    """Whether the agent should do likewise; only losses that learn from failures look at it."""
    origin: LessonOrigin | None = None
    """Only where the loss asks for it."""
    parts: tuple[Part, ...] = ()
    """Its conversations, if the agent has roles; its own tokens are then theirs, in a row."""


class Batch(NamedTuple):
    ids_B_T: Tensor
    attention_B_T: Tensor
    labels_B_T: Tensor
    """The token itself where the agent sampled it, IGNORED everywhere else."""

    def to(self, device: str) -> "Batch":
        """The same tensors on `device`."""
        return Batch(*(tensor.to(device) for tensor in self))

    @property
    def predicting_B_T(self) -> Tensor:
        """True where the logits predict a token of the agent: one place before it."""
        return F.pad(self.labels_B_T[:, 1:] != IGNORED, (0, 1))


def lesson_of(episode: Tokenized, *, context: int | None = None, origin: bool = False) -> Lesson:
    """The first `context` tokens of an episode; None = all. With `origin` also how it was played,
    if that is known. An episode of several conversations has the first ones of each."""
    if parts := parts_of(episode, context=context):
        return joined(parts, success=episode.success)
    tokens = Lesson(episode.token_ids[:context], episode.loss_mask[:context], episode.success)
    return tokens._replace(origin=origin_of(episode, context)) if origin else tokens


def parts_of(episode: Tokenized, *, context: int | None = None) -> tuple[Part, ...]:
    """The conversations of an episode of an agent with roles; none of one without."""
    if isinstance(episode, Trajectory) and has_roles(episode):
        found = [
            Part(one.token_ids, one.loss_mask, episode.success, one.role)
            for one in conversations_of(episode)
        ]
    else:
        found = [*getattr(episode, "parts", ())]
    return tuple(
        part._replace(token_ids=part.token_ids[:context], loss_mask=part.loss_mask[:context])
        for part in found
    )


def joined(parts: Sequence[Part], *, success: bool) -> Lesson:
    """The lesson that has these conversations."""
    ids = tuple(token for part in parts for token in part.token_ids)
    mask = tuple(learned for part in parts for learned in part.loss_mask)
    return Lesson(ids, mask, success, parts=tuple(parts))


def sequences_of(lessons: Iterable[Tokenized]) -> list[Tokenized]:
    """What the model reads, one after another: every conversation, or else the whole episode."""
    return [one for lesson in lessons for one in getattr(lesson, "parts", ()) or (lesson,)]


def origin_of(episode: Tokenized, context: int | None) -> LessonOrigin | None:
    """How an episode, or a lesson made of it, was played."""
    if isinstance(episode, Lesson):
        return episode.origin
    if not isinstance(episode, Trajectory):
        return None
    known = all(len(turn.log_chances) == len(turn.action_ids) for turn in episode.turns)
    told = [x for t in episode.turns for x in (*(0.0,) * len(t.context_ids), *t.log_chances)]
    log_chances = tuple(told[:context]) if known else ()
    return LessonOrigin(episode.task.id, episode.reward, episode.policy, log_chances)


def learned_tokens(lessons: Iterable[Tokenized]) -> int:
    """How many tokens are learned from; nothing predicts the first one of a sequence."""
    return sum(sum(one.loss_mask[1:]) for one in sequences_of(lessons))


def make_batch(episodes: Sequence[Tokenized], *, context: int | None = None) -> Batch:
    """Right-padded tensors; what lies beyond `context` tokens is cut off; None = nothing."""
    rows = [lesson_of(episode, context=context) for episode in episodes]
    width = max(len(row.token_ids) for row in rows)
    ids_B_T = torch.zeros(len(rows), width, dtype=torch.long)
    attention_B_T = torch.zeros_like(ids_B_T)
    labels_B_T = torch.full_like(ids_B_T, IGNORED)
    for row, (ids, mask, *_) in enumerate(rows):
        tokens = torch.tensor(ids, dtype=torch.long)
        ids_B_T[row, : len(ids)] = tokens
        attention_B_T[row, : len(ids)] = 1
        labels_B_T[row, : len(ids)] = torch.where(torch.tensor(mask), tokens, IGNORED)
    return Batch(ids_B_T, attention_B_T, labels_B_T)


def agent_loss(logits_N_V: Tensor, labels_B_T: Tensor) -> Tensor:
    """Mean negative log-likelihood of the agent's N tokens (paper: the MLE objective).

    The logits are those of the places that predict a token of the agent. The loss has the bits of a
    mean over all B x T places, most of them ignored: a sum of floats depends on where its terms
    stand, so each is put where it belongs first.
    """
    labels = labels_B_T[:, 1:].flatten()
    learned = labels != IGNORED
    log_chances_N_V = F.log_softmax(logits_N_V.float(), dim=-1)
    chosen_N = log_chances_N_V.gather(1, labels[learned][:, None])[:, 0]
    placed = torch.zeros(len(labels), device=chosen_N.device).masked_scatter(learned, chosen_N)
    return F.nll_loss(placed[:, None], torch.where(learned, 0, IGNORED), ignore_index=IGNORED)


def make_pieces(lessons: Sequence[T], *, max_tokens: int | None, parts: int = 1) -> list[list[T]]:
    """The batch as groups that are computed one after another, at least `parts` if it can be.

    A group has lessons of similar length and at most `max_tokens` tokens, padding included; a
    longer lesson is a group of its own. Without a limit and with one part the batch stays as it is.
    """
    if max_tokens is None and parts == 1:
        return [list(lessons)]
    # The longest first: what does not fit into memory is known at once.
    ordered = sorted(lessons, key=lambda lesson: -len(lesson.token_ids))
    if max_tokens is None:
        dealt = [ordered[part::parts] for part in range(parts)]
        return [piece for piece in dealt if piece]
    pieces: list[list[T]] = []
    for lesson in ordered:
        if pieces and (len(pieces[-1]) + 1) * len(pieces[-1][0].token_ids) <= max_tokens:
            pieces[-1].append(lesson)
        else:
            pieces.append([lesson])
    return pieces


def padded_tokens(piece: Sequence[Tokenized]) -> int:
    """Tokens the model computes for these lessons in one group, padding included."""
    return len(piece) * max(len(lesson.token_ids) for lesson in piece)
