"""The adapter a client makes for itself: the global one, trained on with its own experience."""

import math
from collections.abc import Sequence

from fedse.aggregate.validate import load_checked
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.events import Emit
from fedse.method.beside import beside, doubled, mean_of_others
from fedse.method.rollout import Game
from fedse.method.site import Site
from fedse.seeds import seed_of
from fedse.types import Adapter, AdapterSpec


def is_due(config: Config, round: int) -> bool:
    """Whether the evaluation of the adapter that enters `round` makes a personal one too."""
    settings = config.personal
    if not settings.steps:
        return False
    after_the_last = round > config.run.rounds
    return after_the_last or bool(settings.every and (round - 1) % settings.every == 0)


def personal_adapter(
    current: Adapter, site: Site, config: Config, *, round: int, emit: Emit
) -> Adapter | None:
    """What `personal.steps` steps on all that ever worked here make of `current`.

    It is made from `current` anew each time, so what the federation learned is in it, and nothing
    of it goes back. None without a lesson.
    """
    lessons = site.buffer.lessons(config.run.name, round, config.buffer.history)
    if not lessons:
        return None
    emit("personal.started", client=site.client, round=round, lessons=len(lessons))
    seed = seed_of(config.run.seed, site.client, round, "personal")
    settings = settings_for(config, len(lessons))
    if config.personal.form == "further":
        return site.fit(current, lessons, settings, seed, Course(stays=True)).adapter
    pair = beside_the_others(current, site, config, round=round)
    course = Course(resting=current.spec.rank, stays=True)
    return site.fit(pair, lessons, settings, seed, course).adapter


def beside_the_others(current: Adapter, site: Site, config: Config, *, round: int) -> Adapter:
    """The client's last vote beside the mean of the others; before its first vote, `current`."""
    vote = site.buffer.outbox.vote(config.run.name, before=round)
    own = current if vote is None else load_checked(lambda: vote, current.spec)
    return beside(mean_of_others(current, own, voters=len(config.clients)), own)


def personal_spec(spec: AdapterSpec, config: Config) -> AdapterSpec:
    """The layout of a personal adapter."""
    return doubled(spec) if config.personal.form == "beside" else spec


def explorers(
    current: Adapter, games: Sequence[Game], site: Site, config: Config, *, round: int, emit: Emit
) -> list[tuple[Adapter, Sequence[Game]]]:
    """Who explores which of the round's games: each game once."""
    if config.personal.explore == "global" or not games:
        return [(current, games)]
    own = personal_adapter(current, site, config, round=round, emit=emit)
    if own is None:
        return [(current, games)]
    named = [game._replace(record="train-personal") for game in games]
    if config.personal.explore == "personal":
        return [(own, named)]
    return [(current, games[::2]), (own, named[1::2])]


def settings_for(config: Config, lessons: int) -> TrainSection:
    """`train` with the personal rate and batch, and exactly `personal.steps` steps."""
    own = config.personal.model_dump(include={"lr", "batch"}, exclude_none=True)
    train = config.train.model_copy(update=own)
    passes = math.ceil(config.personal.steps / math.ceil(lessons / train.batch))
    length = {"epochs": passes, "max_steps": config.personal.steps, "steps": None}
    plain = {"optimizer": "fresh", "factors": "both", "loss": "sft"}
    return train.model_copy(update={**length, **plain})
