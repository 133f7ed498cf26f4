"""Membership inference as the server can do it: it knows the adapter it sent and the reply.

The attacker has the base model, both adapters, and an episode of which it wants to know whether the
reply was learned from it. All scores are higher for what looks like a member.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from fedse.audit.game import TARGETS, AuditSubject, HalfReplies
from fedse.audit.scores import Floats, Scores

Attack = Literal["loss", "difference", "lira", "cosine"]
ATTACKS: tuple[Attack, ...] = get_args(Attack)
LEAST_SHADOWS = 4
"""With fewer, no lesson is in two of them and out of two, so their spread is not known."""


class AttackerView(NamedTuple):
    """What the attacker has computed; R replies of which the first two are attacked, N lessons."""

    before_N: Floats
    """Losses under the adapter that was sent."""
    losses_R_N: Floats
    cosines_T_N: Floats
    """Of the T targets only."""


def look(subject: AuditSubject, game: HalfReplies) -> AttackerView:
    """All figures that the attacks need."""
    probe, pool = subject.probe, subject.pool
    return AttackerView(
        probe.losses(subject.start, pool),
        np.stack([probe.losses(reply, pool) for reply in game.replies]),
        probe.cosines(subject.start, game.replies[:TARGETS], pool),
    )


def attack(seen: AttackerView, members_R_N: NDArray[np.bool_]) -> Mapping[Attack, Scores]:
    """Every lesson's scores by every attack that the number of shadows allows."""
    gained_R_N = seen.before_N - seen.losses_R_N
    scores: dict[Attack, Floats] = {
        "loss": -seen.losses_R_N[:TARGETS],
        "difference": gained_R_N[:TARGETS],
        "cosine": seen.cosines_T_N,
    }
    if len(gained_R_N) - TARGETS >= LEAST_SHADOWS:
        scores["lira"] = likelihood_ratio(
            gained_R_N[:TARGETS], gained_R_N[TARGETS:], members_R_N[TARGETS:]
        )
    targets = members_R_N[:TARGETS]
    return {name: parted(scores[name], targets) for name in ATTACKS if name in scores}


def parted(scores_T_N: Floats, members_T_N: NDArray[np.bool_]) -> Scores:
    """Each lesson's score from the target that learned from it and from the one that did not."""
    inside = np.where(members_T_N[0], scores_T_N[0], scores_T_N[1])
    outside = np.where(members_T_N[0], scores_T_N[1], scores_T_N[0])
    return Scores(inside, outside)


def likelihood_ratio(
    gained_T_N: Floats, shadows_S_N: Floats, members_S_N: NDArray[np.bool_]
) -> Floats:
    """Log of how much better "learned from" explains what a lesson gained (LiRA, Carlini 2022).

    Each lesson has normal distributions of its own for both cases, with its own means. The spread
    is that of all lessons together, as the paper advises for few shadows.
    """
    fits = [_normal(shadows_S_N, known) for known in (members_S_N, ~members_S_N)]
    inside, outside = (
        -0.5 * ((gained_T_N - mean_N) / deviation) ** 2 - np.log(deviation)
        for mean_N, deviation in fits
    )
    ratio: Floats = inside - outside
    return ratio


def _normal(values_S_N: Floats, chosen_S_N: NDArray[np.bool_]) -> tuple[Floats, float]:
    """The mean of each lesson's chosen values, and the deviation from it over all lessons."""
    counts_N = chosen_S_N.sum(axis=0)
    means_N = np.where(chosen_S_N, values_S_N, 0).sum(axis=0) / counts_N
    squares = np.where(chosen_S_N, (values_S_N - means_N) ** 2, 0).sum()
    deviation = float(np.sqrt(squares / (counts_N - 1).sum()))
    # Training that ends the same whatever it learns from has no spread, and no ratio but 1.
    return means_N, max(deviation, 1e-12)
