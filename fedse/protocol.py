"""The messages between server and sites, for any transport: the one module both import.

A question names what it is about and its kind; one message travels beside it, and at most one with
the reply. What these are, and how long they can be, is in the table of kinds: a transport needs to
know nothing else about a question.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, NamedTuple, Protocol, get_args

from fedse.committed import Exclusion, ExclusionKind
from fedse.faults import Fault
from fedse.types import ClientStats, Record

UNNAMED = -1

SumStage = Literal["shares", "masked", "survivors", "unmask"]
"""The stages of a secure sum after the first, in which keys are sent in place of an adapter."""
Kind = Literal["train", "evaluate", "validate", "news", "agree", SumStage, "sum"]
"""train: play, learn and vote. evaluate: measure without learning. validate: play the games that
decide whether an adapter is accepted. news: say whether there is something new to learn from.
agree: say whether the amendment beside the question is accepted. sum: a region adds up the votes it
has told of, each clipped at the bound beside the question."""
NEWS = b"\x01"
"""The answer of a site that has something new; one that has nothing answers nothing."""
YES = b"\x01"
"""The answer of a site that has accepted an amendment; one that has not answers nothing."""
LONGEST_AGREEMENT = 256 * 1024
"""Bytes of a signed amendment."""
SENT_PLANES = 8
"""Of a region's sum; float32 has a range of 2^277, and each plane holds 53 binary places."""
SUM_STAGES = frozenset(get_args(SumStage))


class Question(Record):
    """What a site is asked, durable under experiment, round and kind at both ends."""

    experiment: str
    round: int
    agreed: str
    """Digest of the settings all members share; a site refuses any other."""
    spec: str
    """Identity of the adapter spec, base model included; a site refuses any other."""
    adapter: str
    """Digest of the adapter that the question is about."""
    kind: Kind
    evaluate: bool = False
    """The adapter plays held-out games, before it is trained if it is."""

    @property
    def trains(self) -> bool:
        return self.kind == "train"


class Sizes(NamedTuple):
    """What the largest message of an experiment depends on."""

    adapter: int
    """Bytes of the adapter, or of the part of it that travels."""
    members: int


def _adapter(sizes: Sizes) -> int:
    return sizes.adapter


def _vote(sizes: Sizes) -> int:
    """An adapter, or signed keys in its place, which have some 600 bytes."""
    return max(sizes.adapter, 4096)


def _message(sizes: Sizes) -> int:
    """The longest message of a sum has all shares: 640 bytes of keys per member, 110 per pair."""
    return 4096 + 1024 * sizes.members + 160 * sizes.members**2


def _agreement(sizes: Sizes) -> int:
    return LONGEST_AGREEMENT


def _sum(sizes: Sizes) -> int:
    """A region's signed line, and the planes of its sum, each twice as long as an adapter."""
    return (1 + 2 * SENT_PLANES) * _vote(sizes)


def _bound(sizes: Sizes) -> int:
    return 1024


def _nothing(sizes: Sizes) -> int:
    return 0


def _one_byte(sizes: Sizes) -> int:
    return 1


class KindSizes(NamedTuple):
    """The most bytes that travel beside a question of a kind, and with its reply."""

    down: Callable[[Sizes], int]
    up: Callable[[Sizes], int]


KINDS: Mapping[Kind, KindSizes] = {
    "train": KindSizes(down=_adapter, up=_vote),
    "evaluate": KindSizes(down=_adapter, up=_nothing),
    "validate": KindSizes(down=_adapter, up=_nothing),
    "news": KindSizes(down=_nothing, up=_one_byte),
    "agree": KindSizes(down=_agreement, up=_one_byte),
    "shares": KindSizes(down=_message, up=_message),
    "masked": KindSizes(down=_message, up=_adapter),
    "survivors": KindSizes(down=_message, up=_message),
    "unmask": KindSizes(down=_message, up=_message),
    "sum": KindSizes(down=_bound, up=_sum),
}


class SiteReply(NamedTuple):
    """What a site answers, and keeps in its outbox: numbers, and an adapter if it has a vote."""

    stats: ClientStats
    adapter: bytes | None = None
    """Or what else the kind of question is answered with; None = nothing, such as no vote."""
    fault: Fault = Fault.NONE
    client: int = UNNAMED
    """Place of the site among all members' names in sorted order."""


class Delivery(NamedTuple):
    """What the server has received from one site."""

    client: str
    stats: ClientStats
    adapter: bytes | None = None
    """As in the reply."""
    exclusion: Exclusion | None = None
    """Why the reply cannot be used; None = it can."""

    @property
    def fault(self) -> str:
        """The exclusion in words; empty if there is none."""
        return self.exclusion.text if self.exclusion else ""


def undelivered(client: str, kind: ExclusionKind, reason: str) -> Delivery:
    """A delivery of nothing but the reason why there is nothing."""
    return Delivery(client, ClientStats(), None, Exclusion(client=client, kind=kind, reason=reason))


class Ask(Protocol):
    """Asks these members; yields what arrives before the deadline, in any order."""

    def __call__(
        self, question: Question, body: bytes, *, of: Collection[str]
    ) -> Iterable[Delivery]: ...
