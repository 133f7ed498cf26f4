"""Quarantine: a member whose replies were rejected in several rounds is not asked any more.

Strikes are counted from committed rounds alone, so a restart forgets nothing, and over the last
hundred of them, so that a federation can go on for years. A strike is a reply that broke the rules.
A site that was away, had no vote, or reported a failure of its own gets none: it may come back. Nor
does a member whose name somebody else may have used, so that nobody can get another member locked
out. A pardon ends a quarantine: strikes up to its round no longer count.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fedse.committed import Exclusion, ExclusionKind, RoundResult

WINDOW = 100
"""Rounds after which a strike or a suspicion is forgotten."""
STRIKES: tuple[ExclusionKind, ...] = ("rejected", "suspected")


class StrikeHistory(NamedTuple):
    """What the committed rounds say about the next one."""

    struck: Mapping[str, tuple[int, ...]]
    """The rounds in which each client had a reply rejected, of the last ones."""
    pardons: Mapping[str, int]
    """The round up to which a client's strikes were forgiven."""

    def after(self, result: RoundResult) -> "StrikeHistory":
        new = {one.client for one in result.excluded if one.kind in STRIKES}
        struck = {**self.struck, **{c: (*self.struck.get(c, ()), result.index) for c in new}}
        oldest = result.index + 1 - WINDOW
        recent = {c: tuple(r for r in rounds if r >= oldest) for c, rounds in struck.items()}
        return self._replace(struck={c: rounds for c, rounds in recent.items() if rounds})

    def strikes(self, client: str) -> int:
        """Rounds with a rejected reply since the client's last pardon."""
        forgiven = self.pardons.get(client, 0)
        return sum(round > forgiven for round in self.struck.get(client, ()))


def strike_history(
    results: Iterable[RoundResult], pardons: Mapping[str, int] | None = None
) -> StrikeHistory:
    """The past of the round that follows `results`, of which the last WINDOW count."""
    past = StrikeHistory({}, pardons or {})
    for result in results:
        past = past.after(result)
    return past


def quarantined(past: StrikeHistory, members: Iterable[str], *, limit: int) -> dict[str, Exclusion]:
    """The members with `limit` strikes or more, each with its exclusion; 0 = nobody."""
    return {
        client: Exclusion(
            client=client,
            kind="quarantined",
            reason=f"its replies of {past.strikes(client)} rounds were rejected",
        )
        for client in sorted(members)
        if limit and past.strikes(client) >= limit
    }
