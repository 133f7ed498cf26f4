"""The adapter a client makes for itself: the global one, trained on with its own experience."""

import math

from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.events import Emit
from fedse.method.site import Site
from fedse.seeds import seed_of
from fedse.types import Adapter


def is_due(config: Config, round: int) -> bool:
    """Whether the evaluation of the adapter that enters `round` makes a personal one too."""
    settings = config.personal
    if not settings.steps:
        return False
    after_the_last = round > config.run.last
    return after_the_last or bool(settings.every and (round - 1) % settings.every == 0)


def personal_adapter(
    current: Adapter, site: Site, config: Config, *, round: int, emit: Emit
) -> Adapter | None:
    """What `personal.steps` steps on all that had worked here before `round` make of `current`.

    It is made from `current` anew each time, so what the federation learned is in it, and nothing
    of it goes back. None without a lesson. A round that is done again may have brought lessons
    already: they are not among these.
    """
    lessons = site.buffer.lessons(config.run.name, round - 1, config.buffer.history)
    if not lessons:
        return None
    emit("personal.started", client=site.client, round=round, lessons=len(lessons))
    seed = seed_of(config.run.seed, site.client, round, "personal")
    settings = settings_for(config, len(lessons))
    return site.fit(current, lessons, settings, seed, Course(stays=True)).adapter


def settings_for(config: Config, lessons: int) -> TrainSection:
    """`train` with the personal rate and batch, and exactly `personal.steps` steps."""
    own = config.personal.model_dump(include={"lr"}, exclude_none=True)
    plain = {"loss": "sft", "options": {}}
    return afresh(config.train.model_copy(update={**own, **plain}), config.personal.steps, lessons)


def afresh(train: TrainSection, steps: int, lessons: int) -> TrainSection:
    """Training of both factors with exactly so many steps, from what no other fit has left."""
    passes = math.ceil(steps / math.ceil(lessons / train.batch))
    length = {"epochs": passes, "max_steps": steps, "steps": None}
    return train.model_copy(update={**length, "optimizer": "fresh", "factors": "both"})
