"""The tables `fedse reproduce` can make: which arms, on which experiment, over which seeds.

An arm is a method applied to a pinned experiment file; everything else follows from the seed.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from fedse.config.file import parse_config
from fedse.config.methods import METHODS, apply_method, with_settings
from fedse.config.schema import Config

World = Literal["five-worlds", "one-world", "related"]


class TableArm(NamedTuple):
    """One line of a table."""

    label: str
    method: str = "fed-se"
    settings: Mapping[str, Any] = {}
    world: World = "five-worlds"
    record: str = "test"
    """Which games count: `test` = what nobody has, `home` = the client's own; with `-personal`
    those of the adapter that the client made for itself."""

    @property
    def about(self) -> str:
        return METHODS[self.method].about


class Question(NamedTuple):
    """A comparison the table is made for: is `better` better than `worse`?"""

    better: str
    worse: str


class PinnedTable(NamedTuple):
    title: str
    arms: tuple[TableArm, ...]
    questions: tuple[Question, ...]
    """Asked together, so their p-values are corrected together."""
    quick: tuple[str, ...] = ()
    """Labels of the arms the quick form has; all where empty."""


class Job(NamedTuple):
    """One experiment of one arm and seed; an arm of lone clients has several."""

    arm: str
    seed: int
    config: Config
    record: str = "test"


# The quick form does some of the same work and nothing else, so its figures are in the table too.
SEEDS, QUICK_SEEDS = 5, 3


def _against(better: str, *worse: str) -> tuple[Question, ...]:
    return tuple(Question(better, other) for other in worse)


def _same_world(label: str, method: str) -> TableArm:
    return TableArm(label, method, world="one-world")


def _related(label: str, method: str, record: str) -> TableArm:
    return TableArm(label, method, world="related", record=record)


def _rank(rank: int) -> TableArm:
    # alpha = 2 rank, so that the scaling is the published one for every rank.
    return TableArm(f"rank {rank}", settings={"model.rank": rank, "model.alpha": 2.0 * rank})


PLAIN = TableArm("fed-se, plain mean", settings={"aggregate.step": 1.0})
"""The merge as published; the pinned experiment of five worlds steps beyond the mean."""

TABLES: Mapping[str, PinnedTable] = {
    "main": PinnedTable(
        "Does it work, and is it federation that does it?",
        (
            TableArm("fed-se"),
            PLAIN,
            TableArm("fedit", "fedit"),
            TableArm("fedit, as many steps", "fedit", {"train.epochs": 20}),
            TableArm("local-static", "local-static"),
            TableArm("local-evolve", "local-evolve"),
            TableArm("central-static", "central-static"),
            TableArm("central-evolve", "central-evolve"),
        ),
        _against(
            "fed-se",
            "fedit",
            "fedit, as many steps",
            "local-static",
            "local-evolve",
            "central-static",
            "central-evolve",
            PLAIN.label,
        ),
        ("fed-se", "fedit", "local-static"),
    ),
    "ablations": PinnedTable(
        "Which part of the method does it?",
        (
            TableArm("fed-se"),
            TableArm("no-filter", "no-filter"),
            TableArm("no-history", "no-history"),
            TableArm("weighted", "weighted"),
        ),
        _against("fed-se", "no-filter", "no-history", "weighted"),
        ("fed-se", "no-filter"),
    ),
    "ranks": PinnedTable(
        "How much does a larger adapter buy?",
        (_rank(2), _rank(4), _rank(8), _rank(16)),
        (Question("rank 8", "rank 2"), Question("rank 8", "rank 4"), Question("rank 16", "rank 8")),
        ("rank 2", "rank 8"),
    ),
    "related": PinnedTable(
        "Related sites: does a member gain, in what nobody has and at home?",
        (
            _related("together", "fed-se", "test"),
            _related("together, personal", "fed-se", "test-personal"),
            _related("alone", "local-evolve", "test"),
            _related("alone, as many steps", "local-evolve", "test-personal"),
            _related("in one place", "central-evolve", "test"),
            _related("home: together", "fed-se", "home"),
            _related("home: together, personal", "fed-se", "home-personal"),
            _related("home: alone", "local-evolve", "home"),
            _related("home: alone, as many steps", "local-evolve", "home-personal"),
        ),
        (
            Question("together, personal", "alone, as many steps"),
            Question("together", "alone"),
            Question("in one place", "together"),
            Question("home: together, personal", "home: alone, as many steps"),
            Question("home: together, personal", "home: together"),
        ),
        ("together, personal", "alone, as many steps"),
    ),
    "heterogeneity": PinnedTable(
        "When does federation help: other worlds, or the same world with other tasks?",
        (
            TableArm("five worlds, fed-se"),
            PLAIN._replace(label="five worlds, plain mean"),
            TableArm("five worlds, local-evolve", "local-evolve"),
            TableArm("five worlds, central-evolve", "central-evolve"),
            _same_world("one world, fed-se", "fed-se"),
            _same_world("one world, step 3", "fed-se")._replace(settings={"aggregate.step": 3.0}),
            _same_world("one world, local-evolve", "local-evolve"),
            _same_world("one world, central-evolve", "central-evolve"),
        ),
        (
            Question("five worlds, fed-se", "five worlds, local-evolve"),
            Question("five worlds, fed-se", "five worlds, plain mean"),
            Question("five worlds, central-evolve", "five worlds, fed-se"),
            Question("one world, fed-se", "one world, local-evolve"),
            Question("one world, step 3", "one world, fed-se"),
            Question("one world, central-evolve", "one world, fed-se"),
        ),
        ("one world, fed-se", "one world, local-evolve"),
    ),
}


def arms_of(table: PinnedTable, *, quick: bool) -> list[TableArm]:
    """The arms of the table, or of its quick form."""
    return [arm for arm in table.arms if not quick or not table.quick or arm.label in table.quick]


def questions_of(table: PinnedTable, arms: list[TableArm]) -> list[Question]:
    """The questions these arms can answer."""
    here = {arm.label for arm in arms}
    return [question for question in table.questions if {*question} <= here]


def jobs_of(arms: list[TableArm], seeds: range) -> list[Job]:
    """All experiments, seed by seed, so that an unfinished table is one of fewer seeds."""
    return [
        Job(arm.label, seed, config, arm.record)
        for seed in seeds
        for arm in arms
        for config in apply_method(_config(arm, seed), arm.method)
    ]


def _config(arm: TableArm, seed: int) -> Config:
    name = f"{arm.world}.toml"
    text = files("fedse.reproduce").joinpath(name).read_text(encoding="utf-8")
    return with_settings(parse_config(text, name), {**arm.settings, "run.seed": seed})
