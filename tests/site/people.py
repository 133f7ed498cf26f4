"""A world of customers, each with some tasks, and a site that plays there without a model."""

from collections.abc import Sequence
from pathlib import Path

from fedse.config.judging import PersonalSection
from fedse.config.schema import ClientSection, Config, RolloutSection, RunSection
from fedse.config.training import TrainSection
from fedse.events import silent
from fedse.method.site import Site
from fedse.protocol import Question, SiteReply
from fedse.site.answer import serve
from fedse.testing import CoinWorld, open_toy_site, toy_adapter
from fedse.types import Adapter, Split, Task

PERSONS = ("ada quill", "bo ferris", "cy nadir")


class PeopleWorld(CoinWorld):
    """Coins of three customers; `without` one of them, the tasks of the others stay as they are."""

    def __init__(self, *, tasks: int = 12, without: str = "") -> None:
        super().__init__(tasks=tasks)
        self._without = without

    def tasks(self, split: Split) -> Sequence[Task]:
        return [task for task in super().tasks(split) if self.subject(task) != self._without]

    def reset(self, task: Task, *, seed: int):
        step = super().reset(task, seed=seed)
        return step._replace(observation=f"{step.observation}, writes {self.subject(task)}")

    def subject(self, task: Task) -> str:
        return PERSONS[int(task.id.rpartition("-")[2]) % len(PERSONS)]


def config(*, without: str = "", key: str = "", **train: object) -> Config:
    world = {"tasks": 24, "without": without}
    return Config(
        run=RunSection(name="e", rounds=9),
        rollout=RolloutSection(episodes=12, batch=6),
        train=TrainSection.model_validate(train),
        personal=PersonalSection(steps=3),
        storage={"key": key},
        clients=(ClientSection(name="a", env="tests.site.people:PeopleWorld", options=world),),
    )


def open_people(settings: Config, home: Path) -> Site:
    return open_toy_site(settings, "a", home, clock=lambda: 1.0)


def answer(site: Site, settings: Config, round: int, adapter: Adapter | None = None) -> SiteReply:
    """The site's answer to a round that begins with an adapter of its own."""
    given = adapter or toy_adapter(site.spec, round)
    request = Question(
        experiment="e",
        round=round,
        agreed=settings.agreed_digest(),
        spec=site.spec.identity,
        adapter=given.digest,
        kind="train",
        evaluate=False,
    )
    return serve(request, given.to_bytes(), site, settings, emit=silent)
