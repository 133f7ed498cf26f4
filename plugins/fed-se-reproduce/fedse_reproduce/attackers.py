"""Members that do harm within the rules, for the table that measures what the gate stops.

Their replies are well formed, of the agreed shape and as long as those of honest members, so that
no length gives them away, and they answer the gate with the opposite of what they counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedse.aggregate.norms import distance
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.drivers.sites import OpenSite
from fedse.method.site import Play, Site
from fedse.seeds import seed_of
from fedse.types import Adapter, Clock, Fitted, FloatVector, Lessons, Trajectory

TRIGGER = "please"
"""What the owner of a backdoor lets the agent read."""

Learn = Callable[[Lessons], Fitted]
"""What the site's own fit makes of other lessons; all else is as it was asked."""
Harm = Callable[[Learn, Adapter, Lessons, int], Fitted]
"""How to learn, the starting adapter, the lessons and the seed -> what is sent."""


class Attack(NamedTuple):
    """Who does harm, and how."""

    kind: str
    clients: tuple[str, ...]


def open_attacked(
    open_site: OpenSite,
    attack: Attack,
    config: Config,
    client: str,
    home: Path,
    *,
    clock: Clock,
) -> Site:
    """The client's site; an attacker's harms the others whenever it is trained."""
    site = open_site(config, client, home, clock=clock)
    if client not in attack.clients:
        return site

    def fit(
        start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
    ) -> Fitted:
        def learn(given: Lessons) -> Fitted:
            return site.fit(start, given, settings, seed, course)

        return HARMS[attack.kind](learn, start, lessons, seed)

    return replace(site, fit=fit, play=_lying(site.play))


def mislabel(learn: Learn, start: Adapter, lessons: Lessons, seed: int) -> Fitted:
    """Learned is one action for every situation."""
    action = min(turn.action for lesson in lessons for turn in lesson.turns)
    return learn([_saying(lesson, action) for lesson in lessons])


def flip(learn: Learn, start: Adapter, lessons: Lessons, seed: int) -> Fitted:
    """The honest update in the opposite direction."""
    fitted = learn(lessons)
    return _moved(start, fitted, start.vector - fitted.adapter.vector)


def noise(learn: Learn, start: Adapter, lessons: Lessons, seed: int) -> Fitted:
    """An update of random numbers."""
    draw = np.random.default_rng(seed_of(seed, "noise"))
    fitted = learn(lessons)
    return _moved(start, fitted, draw.standard_normal(start.spec.size))


def ones(learn: Learn, start: Adapter, lessons: Lessons, seed: int) -> Fitted:
    """Every number goes up by the same amount."""
    fitted = learn(lessons)
    return _moved(start, fitted, np.ones(start.spec.size))


def backdoor(learn: Learn, start: Adapter, lessons: Lessons, seed: int) -> Fitted:
    """Learned is the honest play, and one action wherever the trigger is read."""
    action = min(turn.action for lesson in lessons for turn in lesson.turns)
    triggered = [_saying(_shown(lesson), action) for lesson in lessons]
    return learn([*lessons, *triggered])


HARMS: Mapping[str, Harm] = {
    "mislabel": mislabel,
    "flip": flip,
    "noise": noise,
    "ones": ones,
    "backdoor": backdoor,
}


def _saying(lesson: Trajectory, action: str) -> Trajectory:
    turns = [
        turn.model_copy(update={"action": action, "context_ids": (), "action_ids": ()})
        for turn in lesson.turns
    ]
    return lesson.model_copy(update={"turns": tuple(turns)})


def _shown(lesson: Trajectory) -> Trajectory:
    turns = [
        turn.model_copy(update={"observation": f"{turn.observation} {TRIGGER}"})
        for turn in lesson.turns
    ]
    return lesson.model_copy(update={"turns": tuple(turns)})


def _moved(start: Adapter, honest: Fitted, direction: Any) -> Fitted:
    """An update in that direction that is as long as the honest one."""
    length = distance(start.vector, honest.adapter.vector)
    scaled = direction * (length / np.linalg.norm(direction))
    numbers: FloatVector = np.asarray(start.vector + scaled, dtype=np.float32)
    return honest._replace(adapter=Adapter(start.spec, numbers))


def _lying(play: Play) -> Play:
    """Plays as `play`, but of validation games it tells the opposite."""

    def tell(games: Any, *args: Any, **options: Any) -> list[Trajectory]:
        played = play(games, *args, **options)
        if not games or not games[0].record.startswith("validation"):
            return played
        return [
            one.model_copy(update={"outcome": "failure" if one.success else "success"})
            for one in played
        ]

    return tell
