"""A whole audit: the game, the attacks, the planted secrets, the controls, the result.

What is audited is the way a site makes its reply. The reply itself has no counterpart that did not
learn from a lesson, so replies like it are made from halves of the lessons; they stay at the site.
"""

from typing import NamedTuple

import numpy as np

from fedse.audit.attacks import attack, look
from fedse.audit.canary import CANDIDATES, PLACES, Canary, exposed_bits, make_canaries
from fedse.audit.controls import (
    observations_control,
    repeated_control,
    shadows_control,
    strangers_control,
)
from fedse.audit.game import AuditSubject, Tell, play_game
from fedse.audit.scores import auc_estimate, mean_estimate, tpr_estimate
from fedse.audit.verdict import AttackFigures, AuditResult, CanaryFigures, nothing_to_audit
from fedse.seeds import seed_of
from fedse.types import Adapter, Trajectory

LEAST_LESSONS = 20
"""With fewer no figure is worth its computation."""
MOST_LESSONS = 1000
"""Of a larger buffer so many are drawn: an AUC is then known within 0.025."""


class AuditPlan(NamedTuple):
    """How much an audit does; everything random in it follows from `seed`."""

    shadows: int = 4
    canaries: int = 8
    """Secrets planted in each place."""
    candidates: int = CANDIDATES
    repeats: int = 1
    """How often each secret is planted."""
    seed: int = 0


def no_word(text: str) -> None:
    """Nobody listens."""


def conduct_audit(subject: AuditSubject, plan: AuditPlan, *, tell: Tell = no_word) -> AuditResult:
    """What a server can find out about the lessons of `subject` from one reply."""
    subject = subject._replace(pool=draw_pool(subject, seed=plan.seed))
    if len(subject.pool) < LEAST_LESSONS:
        return nothing_to_audit(len(subject.pool))
    # Two targets, one with planted secrets, two controls; the small ones are the third's.
    tell(f"{len(subject.pool)} lessons, so {plan.shadows + 5} trainings and 6 small ones")
    game = play_game(subject, shadows=plan.shadows, seed=plan.seed, tell=tell)
    tell("attacking")
    view = look(subject, game)
    figures = [
        AttackFigures(
            attack=name,
            auc=auc_estimate(scores, seed=plan.seed),
            tpr=tpr_estimate(scores, seed=plan.seed),
        )
        for name, scores in attack(view, game.members).items()
    ]
    canaries, first = _canaries(subject, plan, tell)
    tell("controls")
    return AuditResult(
        lessons=len(subject.pool),
        shadows=plan.shadows,
        attacks=tuple(figures),
        canaries=canaries,
        controls=(
            observations_control(subject, seed=plan.seed),
            shadows_control(subject, seed=plan.seed, tell=tell),
            repeated_control(subject, first, candidates=plan.candidates, seed=plan.seed),
            strangers_control(view, game, seed=plan.seed),
        ),
    )


def draw_pool(subject: AuditSubject, *, seed: int) -> list[Trajectory]:
    """The lessons that have something to learn from, an even number of them."""
    pool = subject.pool
    order = np.random.default_rng(seed_of(seed, "pool")).permutation(len(pool))
    chosen = sorted(order[:MOST_LESSONS].tolist())
    usable = [lesson for place in chosen if any((lesson := pool[place]).loss_mask)]
    return usable[: len(usable) // 2 * 2]


def _canaries(
    subject: AuditSubject, plan: AuditPlan, tell: Tell
) -> tuple[tuple[CanaryFigures, ...], Canary]:
    """The figures by place, from one reply that learned from the pool and all secrets."""
    planted = {
        place: make_canaries(subject.pool, place, plan.canaries, seed=plan.seed) for place in PLACES
    }
    tell("learning with planted secrets")
    secrets = [subject.tokenized(one.episode()) for each in planted.values() for one in each]
    lessons = [*subject.pool, *secrets * plan.repeats]
    reply = subject.learn(lessons, subject.settings, seed_of(plan.seed, "canaries"))
    figures = [_exposed(subject, reply, each, plan, tell) for each in planted.values()]
    return tuple(figures), planted["typed"][0]


def _exposed(
    subject: AuditSubject, reply: Adapter, planted: list[Canary], plan: AuditPlan, tell: Tell
) -> CanaryFigures:
    own = (subject.start, reply, subject.probe, subject.tokenized)
    bits = np.zeros(len(planted))
    for place, one in enumerate(planted):
        tell(f"looking for secrets that were {one.place}, {place + 1} of {len(planted)}")
        bits[place] = exposed_bits(one, *own, candidates=plan.candidates, seed=plan.seed)
    return CanaryFigures(
        place=planted[0].place,
        planted=len(planted),
        candidates=plan.candidates,
        bits=mean_estimate(bits, seed=plan.seed),
        most=float(bits.max()),
    )
