"""Quarantine: a member whose replies were rejected in several rounds is not asked any more.

Strikes are counted from committed rounds alone, so a restart forgets nothing. A strike is a reply
that broke the rules. A site that was away, had no vote, or reported a failure of its own gets none:
it may come back. Nor does a member whose name somebody else may have used, so that nobody can get
another member locked out. A pardon ends a quarantine: strikes up to its round no longer count. In
an experiment without an end, nor do those of more than WINDOW rounds ago.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fedse.committed import Exclusion, ExclusionKind, RoundResult
from fedse.config.rounds import OPEN, Rounds

WINDOW = 100
"""Rounds after which a strike no longer counts where there is no end."""
STRIKES: tuple[ExclusionKind, ...] = ("rejected", "suspected")


class StrikeHistory(NamedTuple):
    """What the committed rounds say about the next one."""

    struck: Mapping[str, tuple[int, ...]]
    """The rounds in which each client had a reply rejected."""
    adapters: frozenset[str]
    """Digests of the global adapters that were sent out; no client can have made one of them."""
    pardons: Mapping[str, int]
    """The round up to which a client's strikes were forgiven."""
    since: int = 0
    """The round up to which nobody's strikes count any more."""

    def after(self, result: RoundResult) -> "StrikeHistory":
        new = {one.client for one in result.excluded if one.kind in STRIKES}
        struck = {client: (*self.struck.get(client, ()), result.index) for client in new}
        return self._replace(
            struck={**self.struck, **struck}, adapters=self.adapters | {result.before}
        )

    def strikes(self, client: str) -> int:
        """Rounds with a rejected reply since the client's last pardon, as far back as counts."""
        forgiven = max(self.since, self.pardons.get(client, 0))
        return sum(round > forgiven for round in self.struck.get(client, ()))


def window_of(rounds: Rounds, done: int) -> int:
    """The round up to which no strike counts when `done` rounds are committed."""
    return max(0, done - WINDOW) if rounds == OPEN else 0


def strike_history(
    results: Iterable[RoundResult], pardons: Mapping[str, int] | None = None, *, since: int = 0
) -> StrikeHistory:
    """The past of the round that follows `results`."""
    past = StrikeHistory({}, frozenset(), pardons or {}, since)
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
