"""The stage that merges votes which the server has, each within the bounds of the settings."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fedse.aggregate.validate import cap_lessons, load_checked
from fedse.drivers.round import OpenRound
from fedse.method.rounds import server_round
from fedse.method.site import Answer, Merged
from fedse.types import Adapter

MEASURED = 256 << 20
"""Total bytes of votes up to which they are compared: it costs as much as the merge or more."""


def merge_votes(r: OpenRound) -> OpenRound:
    """Any of the votes can be merged, and compared with each other."""
    return replace(r, merge=partial(_merge_without, r), votes=partial(_votes, r))


def _merge_without(r: OpenRound, out: frozenset[str]) -> Merged:
    kept = [_capped(r, answer) for client, answer in r.answers.items() if client not in out]
    return server_round(r.current, kept, r.run.config, moments=r.remembered)


def _capped(r: OpenRound, answer: Answer) -> Answer:
    """The answer with no more lessons than this experiment can have brought."""
    lessons = cap_lessons(answer.stats.buffered, r.run.config, round=r.index)
    return answer._replace(stats=answer.stats.model_copy(update={"buffered": lessons}))


def _votes(r: OpenRound, merged: Merged) -> dict[str, Callable[[], Adapter]]:
    """The votes of the merge; none if they are too many bytes to be compared."""
    if len(merged.voters) * r.run.spec.nbytes > MEASURED:
        return {}
    votes = {client: r.answers[client].read for client in merged.voters}
    return {
        client: partial(load_checked, read, r.run.spec) for client, read in votes.items() if read
    }
