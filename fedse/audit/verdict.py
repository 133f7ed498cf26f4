"""What an audit found, and whether that is little enough: numbers and fixed words only."""

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, FiniteFloat

from fedse.audit.attacks import Attack
from fedse.audit.canary import Place
from fedse.audit.scores import Estimate
from fedse.config.section import Fraction, Section
from fedse.types import Record

Control = Literal["observations", "shadows", "repeated", "strangers"]
CONTROL_WORDS = {
    "observations": "lessons learned by heart, observations too, are recognised",
    "shadows": "lessons learned by heart are recognised by shadow adapters",
    "repeated": "a secret typed 100 times is found",
    "strangers": "lessons that were not learned from are not recognised",
}


class AuditRules(Section):
    """When a site audits what it is about to send, and what it lets pass."""

    every: Annotated[int, Field(ge=0)] = 0
    """Rounds from one audit to the next; the first answer is audited, too, and after an audit that
    did not pass the next one. 0 = never. An audit takes as long as some 10 trainings."""
    shadows: Annotated[int, Field(ge=4, multiple_of=2)] = 4
    """Adapters that the audit trains to calibrate its strongest attack, an even number; more find
    more, and take longer."""
    min_episodes: Annotated[int, Field(ge=20)] = 100
    """With fewer lessons than this nothing can be said, so nothing leaves."""
    max_auc: Fraction = 0.6
    """How well any attack may tell lessons from episodes that were not learned from; 0.5 = not at
    all, 1 = always."""
    max_tpr: Fraction = 0.1
    """The share of lessons any attack may recognise with one false alarm in a hundred."""
    max_bits: Annotated[float, Field(ge=0)] = 3.0
    """Mean bits by which a planted secret may be exposed; 1.4 is chance, 12 is all."""


class AttackFigures(Record):
    """How well one attack distinguishes lessons from other episodes."""

    attack: Attack
    auc: Estimate
    tpr: Estimate
    """At a false-positive rate of 1 %."""


class CanaryFigures(Record):
    """How much is known of secrets that were planted once each."""

    place: Place
    planted: int
    candidates: int
    bits: Estimate
    """The mean over the secrets."""
    most: float
    """Bits of the most exposed one."""


class ControlFigures(Record):
    """A check of the audit itself, whose result is known beforehand."""

    control: Control
    figure: FiniteFloat
    low: float
    """The figure must not be below this."""
    high: float
    """Nor above this."""

    @property
    def succeeded(self) -> bool:
        return self.low <= self.figure <= self.high


class Worst(NamedTuple):
    """The highest figures of all attacks and places."""

    auc: float
    tpr: float
    bits: float


class AuditResult(Record):
    """One audit: what a server learns of a site's lessons from a reply that is made like these."""

    attacker: Literal["server"] = "server"
    """Sees the adapter that was sent and the reply, and knows episodes that may be lessons."""
    lessons: int
    shadows: int
    attacks: tuple[AttackFigures, ...]
    canaries: tuple[CanaryFigures, ...]
    controls: tuple[ControlFigures, ...]

    @property
    def worst(self) -> Worst:
        return Worst(
            auc=max((one.auc.value for one in self.attacks), default=1.0),
            tpr=max((one.tpr.value for one in self.attacks), default=1.0),
            bits=max((one.bits.value for one in self.canaries), default=float("inf")),
        )

    @property
    def failed_controls(self) -> tuple[Control, ...]:
        """Not empty = the audit did not work, and its other figures mean nothing."""
        return tuple(one.control for one in self.controls if not one.succeeded)

    def passes(self, rules: AuditRules) -> bool:
        """Whether a reply may leave. An audit that could not see anything lets nothing pass."""
        return not any(self.objections(rules))

    def objections(self, rules: AuditRules) -> Iterator[str]:
        """Why the reply may not leave."""
        if self.lessons < rules.min_episodes:
            yield f"{self.lessons} lessons are too few, min_episodes is {rules.min_episodes}"
            return
        for control in self.failed_controls:
            yield f"the audit did not work: not true that {CONTROL_WORDS[control]}"
        limits = (rules.max_auc, rules.max_tpr, rules.max_bits)
        for name, figure, limit in zip(Worst._fields, self.worst, limits, strict=True):
            if figure > limit:
                yield f"{name} is {figure:.3g}, max_{name} is {limit:g}"


def nothing_to_audit(lessons: int) -> AuditResult:
    """The result where there are too few lessons to begin with."""
    return AuditResult(lessons=lessons, shadows=0, attacks=(), canaries=(), controls=())
