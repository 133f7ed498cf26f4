"""Quarantine: a member whose replies were rejected in several rounds is not asked any more.

Strikes are counted from committed rounds alone, so a restart forgets nothing. A strike is a reply
that broke the rules. A site that was away, had no vote, or reported a failure of its own gets none:
it may come back. Nor does a member whose name somebody else may have used, so that nobody can get
another member locked out.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from fedse.committed import Exclusion, ExclusionKind, RoundResult

STRIKES: tuple[ExclusionKind, ...] = ("rejected", "suspected")


class StrikeHistory(NamedTuple):
    """What the committed rounds say about the next one."""

    strikes: Counter[str]
    """In how many rounds each client had a reply rejected."""
    adapters: frozenset[str]
    """Digests of the global adapters that were sent out; no client can have made one of them."""

    def after(self, result: RoundResult) -> "StrikeHistory":
        struck = {one.client for one in result.excluded if one.kind in STRIKES}
        return StrikeHistory(self.strikes + Counter(struck), self.adapters | {result.before})


def strike_history(results: Iterable[RoundResult]) -> StrikeHistory:
    """The past of the round that follows `results`."""
    past = StrikeHistory(Counter(), frozenset())
    for result in results:
        past = past.after(result)
    return past


def quarantined(past: StrikeHistory, members: Iterable[str], *, limit: int) -> dict[str, Exclusion]:
    """The members with `limit` strikes or more, each with its exclusion; 0 = nobody."""
    strikes = past.strikes
    return {
        client: Exclusion(
            client=client,
            kind="quarantined",
            reason=f"its replies of {strikes[client]} rounds were rejected",
        )
        for client in sorted(members)
        if limit and strikes[client] >= limit
    }
