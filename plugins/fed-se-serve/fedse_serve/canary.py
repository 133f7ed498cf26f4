"""Whether an adapter that serves a share of the sessions is promoted, rolled back or withdrawn.

Both adapters serve at the same time, and chance alone decides which one a session gets. The verdict
may be asked for after every session. An adapter that is no worse than the present one, in success
and in every guard, is rolled back with a probability of at most `alpha`; one that is worse by more
than `promote_delta` is promoted with a probability of at most `promote_alpha`.

This holds if what has been seen once is not changed afterwards: a session counts with the first
label it gets. At 100 % nothing is left to compare with, so the last share is the promotion.
"""

import hmac
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, field_validator

from fedse.config.section import Positive, Section
from fedse.types import Record
from fedse_serve.evidence import Evidence
from fedse_serve.guards import GuardMargins

Arm = Literal["stable", "canary"]
Verdict = Literal["go on", "promote", "roll back", "withdraw"]
Risk = Annotated[float, Field(gt=0, lt=1)]
Points = Annotated[float, Field(ge=0, lt=1)]
SUCCESS = "success"
MOST_EVIDENCE = 1e12
"""Beyond it a figure says no more."""


class CanarySettings(Section):
    """How an adapter has to prove itself in service."""

    shares: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.05, 0.25, 1.0)
    """The shares of the sessions that it serves, one after another; the last is 1."""
    alpha: Risk = 0.05
    """The probability, at most, of rolling back a harmless one: half for success, half guards."""
    promote_alpha: Risk = 0.05
    """The probability, at most, of promoting one that is worse by more than `promote_delta`."""
    delta: Points = 0.0
    """It is rolled back when its success is lower by more than this share."""
    promote_delta: Points = 0.02
    """It is promoted when its success is not lower by more than this share; 0 = is higher."""
    least: Positive = 50
    """Labelled sessions of its own that it needs at a share before it gets the next."""
    limit: Positive = 2000
    """Labelled sessions of its own after which it is withdrawn without a verdict."""
    limit_all: Positive = 20_000
    """The same for all its sessions, labelled or not."""
    guards: GuardMargins = GuardMargins()

    @field_validator("shares")
    @classmethod
    def _rise_to_one(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        rising = all(a < b for a, b in pairwise(shares))
        if len(shares) < 2 or not rising or shares[-1] != 1:
            raise ValueError(f"expected at least two rising shares that end in 1, got {shares}")
        return shares


class Seen(NamedTuple):
    """What has become known of a session: its flags when it ended, its label when that came.

    The two may be given together or one after the other. Only sessions count that began while
    the candidate served its share.
    """

    unit: str
    """What the arm was drawn for: the session, or the person if arms stick to persons. Sessions of
    one person are alike, so of each unit only the first counts."""
    arm: Arm
    share: float
    """The candidate's share when the session began. Sessions of different shares are not compared:
    the mixture of early and late labels differs between the arms."""
    label: bool | None = None
    flags: Mapping[str, bool] | None = None
    """By guard, whether the session shows it."""
    mixed: bool = False
    """More than one adapter served it."""


class Figure(Record):
    """One metric: in how many sessions of each arm it was true, and the evidence of harm."""

    metric: str
    canary_true: int
    canary_all: int
    stable_true: int
    stable_all: int
    evidence: float
    needed: float


class Decision(Record):
    """What to do with the candidate, and why."""

    verdict: Verdict
    share: float
    """Of the sessions, that it gets from now on."""
    reason: str
    figures: tuple[Figure, ...]
    promotion: float
    """The evidence that it is good enough."""
    ended: dict[Arm, int]
    labelled: dict[Arm, int]
    """Out of those, sessions with a label; the two arms should have alike shares of them."""
    mixed: int
    repeated: int
    """Sessions left out: those served by more than one adapter, further ones of the same unit."""


def arm_of(key: str, *, salt: str, share: float) -> Arm:
    """The arm of a session or person; whoever is in the canary at a share is so at any greater one.

    A salt that contains the candidate's digest makes each candidate meet other persons.
    """
    drawn = int.from_bytes(hmac.digest(salt.encode(), b"arm\n" + key.encode(), "sha256")[:8], "big")
    return "canary" if drawn < share * 2**64 else "stable"


def decide(seen: Iterable[Seen], settings: CanarySettings) -> Decision:
    """The decision after all that was seen, in this order; a final one is never taken back."""
    trial = Trial(settings)
    for one in seen:
        trial.see(one)
    return trial.decision


class _Metric:
    """One metric in both arms, with the evidence that the canary is worse in it."""

    def __init__(self, name: str, *, margin: float, needed: float, harm: bool) -> None:
        """`harm` is the outcome that is harmful: True for guards, False for success."""
        self.name, self.margin, self.needed, self.harm = name, margin, needed, harm
        self.evidence = Evidence(margin)

    @property
    def figure(self) -> Figure:
        # The evidence is that its first arm has more: of a guard the canary, of success the other.
        one, ones, other, others = self.evidence.counts
        canary, stable = ((one, ones), (other, others))[:: 1 if self.harm else -1]
        return Figure(
            metric=self.name,
            canary_true=canary[0],
            canary_all=canary[1],
            stable_true=stable[0],
            stable_all=stable[1],
            evidence=_rounded(self.evidence.value),
            needed=_rounded(self.needed),
        )

    @property
    def rates(self) -> str:
        figure = self.figure
        candidate = _percent(figure.canary_true, figure.canary_all)
        present = _percent(figure.stable_true, figure.stable_all)
        return f"{self.name} in {candidate} with the candidate, {present} with the present adapter"

    @property
    def told(self) -> str:
        """The figures, as the reason for rolling back."""
        how = "higher" if self.harm else "lower"
        by = f" by more than {100 * self.margin:g} points" if self.margin else ""
        figures = f"evidence {_rounded(self.evidence.value):g}, {self.needed:g} needed"
        return f"{self.rates}: {how}{by} ({figures})"


class Trial:
    """The trial of one candidate, session by session."""

    def __init__(self, settings: CanarySettings) -> None:
        self._settings = settings
        margins = {name: m for name, m in settings.guards.model_dump().items() if m < 1}
        half = settings.alpha / 2 if margins else settings.alpha
        self._success = _Metric(SUCCESS, margin=settings.delta, needed=1 / half, harm=False)
        self._guards = [
            _Metric(name, margin=margin, needed=len(margins) / half, harm=True)
            for name, margin in margins.items()
        ]
        self._promotion = Evidence(-settings.promote_delta)
        self._ended: dict[Arm, set[str]] = {"stable": set(), "canary": set()}
        self._labelled: dict[Arm, set[str]] = {"stable": set(), "canary": set()}
        self._mixed: set[str] = set()
        self._repeated = self._stage = self._at_share = 0
        self._final: tuple[Verdict, str] | None = None

    def see(self, seen: Seen) -> None:
        """It counts, unless the verdict was final before."""
        if self._final:
            return
        if seen.mixed:
            self._mixed.add(seen.unit)
            return
        if seen.flags is not None and self._is_new(seen, self._ended):
            self._see_flags(seen, seen.flags)
        if seen.label is not None and not self._final and self._is_new(seen, self._labelled):
            self._see_label(seen, seen.label)

    def _is_new(self, seen: Seen, known: dict[Arm, set[str]]) -> bool:
        if seen.unit in known["stable"] or seen.unit in known["canary"]:
            self._repeated += 1
            return False
        known[seen.arm].add(seen.unit)
        return True

    def _see_flags(self, seen: Seen, flags: Mapping[str, bool]) -> None:
        canary, share = seen.arm == "canary", seen.share
        for guard in self._guards:
            if guard.name in flags:
                guard.evidence.add(flags[guard.name], first=canary, stratum=share)
                if guard.evidence.value >= guard.needed:
                    self._final = "roll back", guard.told
                    return
        if len(self._ended["canary"]) >= self._settings.limit_all:
            self._withdraw(f"{self._settings.limit_all:,} sessions")

    def _see_label(self, seen: Seen, label: bool) -> None:
        settings = self._settings
        canary, share = seen.arm == "canary", seen.share
        self._success.evidence.add(label, first=not canary, stratum=share)
        self._promotion.add(label, first=canary, stratum=share)
        self._at_share += canary and share == settings.shares[self._stage]
        harm, fit = self._success.evidence.value, self._promotion.value
        if harm >= self._success.needed:
            self._final = "roll back", self._success.told
        elif len(self._labelled["canary"]) >= settings.limit:
            self._withdraw(f"{settings.limit:,} labelled sessions")
        elif self._at_share < settings.least or fit <= harm or self._leans_to_harm:
            return
        elif self._stage < len(settings.shares) - 2:
            self._stage, self._at_share = self._stage + 1, 0
        elif fit >= 1 / settings.promote_alpha:
            below = f"not lower by more than {100 * settings.promote_delta:g} points"
            figures = f"evidence {_rounded(fit):g}, {1 / settings.promote_alpha:g} needed"
            self._final = "promote", f"{self._success.rates}: {below} ({figures})"

    @property
    def _leans_to_harm(self) -> bool:
        """Whether a guard has more evidence of harm than it began with: no time for a next step."""
        return any(guard.evidence.value > 1 for guard in self._guards)

    def _withdraw(self, after: str) -> None:
        self._final = "withdraw", f"not shown to be good enough after {after}"

    @property
    def verdict(self) -> Verdict:
        return self._final[0] if self._final else "go on"

    @property
    def share(self) -> float:
        """Of the sessions, that the candidate gets from now on."""
        if not self._final:
            return self._settings.shares[self._stage]
        return 1.0 if self.verdict == "promote" else 0.0

    @property
    def decision(self) -> Decision:
        reason = self._final[1] if self._final else f"undecided at {100 * self.share:g} %"
        return Decision(
            verdict=self.verdict,
            share=self.share,
            reason=reason,
            figures=tuple(metric.figure for metric in (self._success, *self._guards)),
            promotion=_rounded(self._promotion.value),
            ended={arm: len(units) for arm, units in self._ended.items()},
            labelled={arm: len(units) for arm, units in self._labelled.items()},
            mixed=len(self._mixed),
            repeated=self._repeated,
        )


def _rounded(evidence: float) -> float:
    """Three digits; infinity has no place in a ledger."""
    return float(f"{min(evidence, MOST_EVIDENCE):.3g}")


def _percent(true: int, of: int) -> str:
    return f"{100 * true / of:.1f} % of {of:,}" if of else "no session"
