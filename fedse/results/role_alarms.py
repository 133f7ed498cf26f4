"""Two ways in which learning of several roles goes wrong (arXiv 2605.24202), told as alarms.

A policy that all roles share is captured by the role with the most of the gradient. A policy of
one role alone falls off late, after its best rounds.
"""

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.results.role_course import RoleRound, Validations, block_course, role_course
from fedse.stats.rates import Rate, change, micro

MOST_OF_ALL = 0.8
"""From this share of the gradient on, a role counts as the one that decides."""
LEARNS = 0.05
"""A role that learns loses at least this part of its loss from LATE rounds to the next ones."""
LEARNED = 0.9
"""A role that succeeds so often has little left to learn."""
LOOKED_BACK = 100
"""Rounds, so that an alarm costs the same after thousands of them."""
LATE = 3
"""Rounds that are looked at together, so that one bad round is no alarm."""


class RoleAlarm(NamedTuple):
    """`role-captured` or `role-cliff`, as an `Alarm` has them."""

    name: str
    text: str
    next: str


def role_alarms(
    results: Sequence[RoundResult], config: Config, validations: Validations
) -> list[RoleAlarm]:
    """The alarms that hold after the last of these rounds; none for an agent without roles."""
    if len(config.roles.names) < 2:
        return []
    results = results[-LOOKED_BACK:]
    if config.roles.blocks:
        courses = block_course(results, config, validations)
        known = any(validations.values())
        found = (_cliff(block, one, validated=known) for block, one in courses.items())
        return [alarm for alarm in found if alarm]
    return _capture(role_course(results[-2 * LATE :], config), config)


def _cliff(block: str, course: dict[int, Rate], *, validated: bool) -> RoleAlarm | None:
    """The last rounds are worse than the best ones before them, by more than chance.

    The best of many windows is often a lucky one, so the more there are the more it takes.
    """
    rounds = sorted(course)
    late, early = rounds[-LATE:], rounds[:-LATE]
    windows = [early[start : start + LATE] for start in range(len(early) - LATE + 1)]
    if not windows:
        return None
    now = micro([course[index] for index in late])
    rates = [micro([course[index] for index in window]) for window in windows]
    best, window = max(zip(rates, windows, strict=True), key=lambda one: one[0].value)
    z = NormalDist().inv_cdf(1 - 0.025 / len(windows))
    if change(best, now, z).high >= 0:
        return None
    text = (
        f"the success of {block} fell from {best.value:.2f} in rounds {window[0]} to {window[-1]} "
        f"to {now.value:.2f} in rounds {late[0]} to {late[-1]}, by more than chance"
    )
    which = "--best" if validated else f"--round {max(1, window[-1])}"
    return RoleAlarm("role-cliff", text, f"fedse export adapter last {which} --out FOLDER")


def _capture(course: Sequence[RoleRound], config: Config) -> list[RoleAlarm]:
    """One role gives most of the gradient, and another one no longer learns."""
    rounds = sorted({one.round for one in course})
    late, early = rounds[-LATE:], rounds[:-LATE]
    if not early:
        return []
    for role in config.roles.names:
        share = sum(one.share for one in course if one.role == role and one.round in late)
        share /= len(late)
        lost = [
            other
            for other in config.roles.names
            if other != role and _has_stopped([one for one in course if one.role == other], late)
        ]
        if share > MOST_OF_ALL and lost:
            text = (
                f"{role} gives {share:.0%} of the gradient of the policy that all roles share, "
                f"and {', '.join(lost)} no longer learns"
            )
            return [RoleAlarm("role-captured", text, _remedy(config))]
    return []


def _has_stopped(course: Sequence[RoleRound], late: Sequence[int]) -> bool:
    """Whether its success fell by more than chance, or its loss hardly falls before it is good."""
    now = [one for one in course if one.round in late]
    before = [one for one in course if one.round not in late]
    earlier, won = (micro([one.played for one in part]) for part in (before, now))
    if change(earlier, won).high < 0:
        return True
    losses = [[one.loss for one in part if one.loss is not None] for part in (before, now)]
    if won.value >= LEARNED or not all(losses):
        return False
    then, later = (sum(part) / len(part) for part in losses)
    return later > (1 - LEARNS) * then


def _remedy(config: Config) -> str:
    if not config.roles.balance:
        return "fedse run CONFIG --set roles.balance=true"
    return 'fedse run CONFIG --set roles.policy="isolated"'
