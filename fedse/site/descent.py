"""Which adapters were made with what a site learned from: those it sent, merged ones, its own.

A line of the site's ledger says which adapter came with a request, and which one answered it. An
adapter that came after the site had sent such an answer may have it merged in: the site cannot see
whether its vote was counted.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from fedse.ledger.chain import FILE, examine
from fedse.ledger.entries import AnswerEntry, answer_entries
from fedse.ledger.writing import read_ledger
from fedse.site.own_adapters import OwnAdapter, own_adapters


class Descendant(NamedTuple):
    """An adapter that left the site, or came back merged."""

    experiment: str
    round: int
    """Which it answers, or came with."""
    adapter: str
    """Its digest."""


class Descent(NamedTuple):
    sent: tuple[Descendant, ...]
    merged: tuple[Descendant, ...]
    own: tuple[OwnAdapter, ...]
    """Kept at the site: its personal adapters, and copies of merged ones."""


def descent_of(home: Path, seen: Mapping[str, int], *, before: float = float("inf")) -> Descent:
    """All that descends from episodes first met in these rounds, by experiment.

    Of the site's own adapters those that were made up to `before`, in seconds since 1970.
    """
    answers = _answers(home)
    sent = [a for a in answers if a.sent and _has_learned(a, seen)]
    first = {name: min(a.round for a in sent if a.experiment == name) for name in _names(sent)}
    merged = [a for a in answers if a.received and _came_after(a, first)]
    own = [
        one for one in own_adapters(home) if one.made <= before and _is_descended(one, seen, first)
    ]
    return Descent(
        _unique(Descendant(a.experiment, a.round, a.sent) for a in sent if a.sent),
        _unique(Descendant(a.experiment, a.round, a.received) for a in merged if a.received),
        tuple(own),
    )


def first_learned(seen: int) -> int:
    """The first round whose adapter is made with an episode met in that round."""
    return max(1, seen)


def _answers(home: Path) -> list[AnswerEntry]:
    if not (home / FILE).is_file():
        return []
    return [entry for _, entry in answer_entries(examine(read_ledger(home / FILE)).entries)]


def _has_learned(answer: AnswerEntry, seen: Mapping[str, int]) -> bool:
    since = seen.get(answer.experiment)
    return since is not None and answer.round >= first_learned(since)


def _came_after(answer: AnswerEntry, first: Mapping[str, int]) -> bool:
    """With a later round, or in the same one to be judged, when the answers had been merged."""
    since = first.get(answer.experiment)
    if since is None:
        return False
    return answer.round > since or (answer.round == since and answer.sent is None)


def _is_descended(own: OwnAdapter, seen: Mapping[str, int], first: Mapping[str, int]) -> bool:
    """What the site made has all that it learned from; a copy of a merged one what it sent."""
    since = first if own.is_global else seen
    return any(own.round >= round for round in since.values())


def _names(answers: list[AnswerEntry]) -> set[str]:
    return {answer.experiment for answer in answers}


def _unique(found: Iterable[Descendant]) -> tuple[Descendant, ...]:
    return tuple(sorted({*found}))
