"""Checks of an audit whose results are known beforehand, so that a quiet audit is not a broken one.

Three must find something: lessons that were learned by heart with their observations, by how much
their loss fell and by shadow adapters, and a secret that was typed 100 times. They train with
settings of their own, made to remember, and without noise: they say whether the attacks work, not
whether the reply is protected. One must find nothing: among lessons that an adapter did not learn
from, none looks like a member.
"""

import numpy as np

from fedse.audit.attacks import LEAST_SHADOWS, AttackerView, attack, look
from fedse.audit.canary import Canary, exposed_bits
from fedse.audit.game import AuditSubject, HalfReplies, Tell, play_game
from fedse.audit.scores import Scores, auc, null_error
from fedse.audit.verdict import ControlFigures
from fedse.config.training import TrainSection
from fedse.seeds import seed_of
from fedse.types import Trajectory

LEARNED = 40
"""Lessons on each side of a control: enough to tell an AUC of 0.9 from one of 0.8."""
IN_GAME = 16
"""Lessons of the game that shadow adapters must win."""
TIMES = 100
"""How often the control's secret is typed."""
LEAST_AUC = 0.8
LEAST_IN_GAME = 0.9
"""With scores that say nothing, 2 of 1000 games of 16 lessons reach it at most, also where a
lesson's two scores mirror each other; 20 would reach 0.8."""
LEAST_BITS = 10.0
REACH = 3.29
"""Standard errors that chance stays within in 999 of 1000 audits."""
BY_HEART_EPOCHS, REPEATED_EPOCHS = 20, 3


def by_heart(settings: TrainSection, epochs: int) -> TrainSection:
    """Training that is bound to remember what it is given, with maximum likelihood."""
    own = {
        "epochs": epochs,
        "steps": None,
        "max_steps": None,
        "lr": max(settings.lr, 2e-3),
        "batch": min(settings.batch, 4),
        "loss": "sft",
        "factors": "both",
        "optimizer": "fresh",
        "schedule": "round",
    }
    return settings.model_copy(update=own)


def with_observations(lesson: Trajectory) -> Trajectory:
    """The same tokens, all of them learned from."""
    turns = tuple(
        turn.model_copy(
            update={
                "context_ids": (),
                "action_ids": (*turn.context_ids, *turn.action_ids),
                "learned": True,
            }
        )
        for turn in lesson.turns
    )
    return lesson.model_copy(update={"turns": turns})


def observations_control(subject: AuditSubject, *, seed: int) -> ControlFigures:
    """The AUC of the loss when lessons are learned by heart, with all that was shown."""
    random = np.random.default_rng(seed_of(seed, "observations"))
    order = random.permutation(len(subject.pool))[: 2 * LEARNED].tolist()
    whole = [with_observations(subject.pool[place]) for place in order]
    half = len(whole) // 2
    reply = subject.learn_openly(whole[:half], by_heart(subject.settings, BY_HEART_EPOCHS), seed)
    gained = subject.probe.losses(subject.start, whole) - subject.probe.losses(reply, whole)
    figure = auc(Scores(gained[:half], gained[half:]))
    return ControlFigures(control="observations", figure=figure, low=LEAST_AUC, high=1.0)


def shadows_control(subject: AuditSubject, *, seed: int, tell: Tell) -> ControlFigures:
    """The AUC of LiRA in a game of a few lessons that are learned by heart, like those above."""
    random = np.random.default_rng(seed_of(seed, "shadows"))
    order = random.permutation(len(subject.pool))[:IN_GAME]
    small = subject._replace(
        pool=[with_observations(subject.pool[place]) for place in order.tolist()],
        settings=by_heart(subject.settings, BY_HEART_EPOCHS),
        learn=subject.learn_openly,
    )
    game = play_game(small, shadows=LEAST_SHADOWS, seed=seed_of(seed, "shadows game"), tell=tell)
    figure = auc(attack(look(small, game), game.members)["lira"])
    return ControlFigures(control="shadows", figure=figure, low=LEAST_IN_GAME, high=1.0)


def repeated_control(
    subject: AuditSubject, canary: Canary, *, candidates: int, seed: int
) -> ControlFigures:
    """The bits of a secret that the agent typed 100 times, among a few other lessons."""
    planted = [subject.tokenized(canary.episode())] * TIMES
    lessons = [*subject.pool[: LEARNED // 2], *planted]
    reply = subject.learn_openly(lessons, by_heart(subject.settings, REPEATED_EPOCHS), seed)
    own = (subject.start, reply, subject.probe, subject.tokenized)
    figure = exposed_bits(canary, *own, candidates=candidates, seed=seed)
    # Of fewer candidates than 2^10 no secret can be exposed by 10 bits.
    most = float(np.log2(candidates))
    return ControlFigures(
        control="repeated", figure=figure, low=min(LEAST_BITS, most - 1), high=most
    )


def strangers_control(view: AttackerView, game: HalfReplies, *, seed: int) -> ControlFigures:
    """The AUC among lessons that the first target did not learn from, divided at random."""
    outside = np.flatnonzero(~game.members[0])
    order = np.random.default_rng(seed_of(seed, "strangers")).permutation(outside)
    gained = (view.before_N - view.losses_R_N[0])[order]
    half = len(order) // 2
    first, second = gained[:half], gained[half:]
    reach = REACH * null_error(len(first), len(second))
    figure = auc(Scores(first, second))
    return ControlFigures(control="strangers", figure=figure, low=0.5 - reach, high=0.5 + reach)
