"""What a table of `fedse reproduce` is: which arms, on which experiment, over which seeds.

An arm is a method applied to a pinned experiment file; everything else follows from the seed.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from fedse import plugins
from fedse.config.file import parse_config
from fedse.config.methods import METHODS, apply_method, with_settings
from fedse.config.schema import Config
from fedse.config.shipped import SHIPPED
from fedse.errors import ConfigError
from fedse.plugins import packaged, plugin_names
from fedse_reproduce.attackers import Attack

World = Literal["five-worlds", "one-world", "related", "levels", "newcomer", "unequal", "reward"]


class TableArm(NamedTuple):
    """One line of a table."""

    label: str
    method: str = "fed-se"
    settings: Mapping[str, Any] = {}
    world: World = "five-worlds"
    record: str = "test"
    """Which games count: `test` = what nobody has, `home` = the client's own; with `-personal`
    those of the adapter that the client made for itself."""
    round: int | None = None
    """After which round; unset = after the last."""
    only: tuple[str, ...] = ()
    """The clients that count; empty = all."""
    without: tuple[str, ...] = ()
    """Clients of the experiment file that do not take part."""
    attack: Attack | None = None

    @property
    def about(self) -> str:
        return METHODS[self.method].about


class Versus(NamedTuple):
    """A comparison the table is made for: is `better` better than `worse`?"""

    better: str
    worse: str


class Gap(NamedTuple):
    """How much of the way from `lower` to `upper` does `middle` go?"""

    lower: str
    middle: str
    upper: str


class PinnedTable(NamedTuple):
    title: str
    arms: tuple[TableArm, ...]
    questions: tuple[Versus, ...]
    """Asked together, so their p-values are corrected together."""
    quick: tuple[str, ...] = ()
    """Labels of the arms the quick form has; all where empty."""
    seeds: int = 5
    gaps: tuple[Gap, ...] = ()


class Job(NamedTuple):
    """One experiment of one arm and seed; an arm of lone clients has several."""

    arm: str
    seed: int
    config: Config
    record: str = "test"
    round: int | None = None
    only: tuple[str, ...] = ()
    attack: Attack | None = None


GROUPS = {
    "aggregate.type": plugins.AGGREGATES,
    "select.type": plugins.SELECTS,
    "train.loss": plugins.LOSSES,
}
"""Settings whose values other packages can add."""
# The quick form does some of the same work and nothing else, so its figures are in the table too.
QUICK_SEEDS = 1


def arms_of(table: PinnedTable, *, quick: bool) -> list[TableArm]:
    """The arms of the table, or of its quick form."""
    return [arm for arm in table.arms if not quick or not table.quick or arm.label in table.quick]


def require_arms(name: str, arms: Sequence[TableArm]) -> None:
    """Everything that the arms use is installed; the error names the package that is not."""
    lacking: dict[str, list[str]] = {}
    for arm in arms:
        for key, group in GROUPS.items():
            variant = str(arm.settings.get(key, ""))
            package = packaged(group).get(variant)
            if package and variant not in plugin_names(group):
                lacking.setdefault(package, []).append(arm.label)
    for package, labels in lacking.items():
        raise ConfigError(
            f"table {name} needs the package {package} for {', '.join(labels)}",
            hint=f"pip install {package}, or in a checkout: pip install -e plugins/{package}",
        )


def questions_of(table: PinnedTable, arms: list[TableArm]) -> list[Versus]:
    """The questions these arms can answer."""
    here = {arm.label for arm in arms}
    return [question for question in table.questions if {*question} <= here]


def jobs_of(arms: list[TableArm], seeds: range, changed: Sequence[str] = ()) -> list[Job]:
    """All experiments, seed by seed, so that an unfinished table is one of fewer seeds.

    `changed`: settings as `section.key=value` that replace those of the experiment files.
    """
    return [
        Job(arm.label, seed, config, arm.record, arm.round, arm.only, arm.attack)
        for seed in seeds
        for arm in arms
        for config in apply_method(config_of(arm, seed, changed), arm.method)
        if _counts(arm, config)
    ]


def config_of(arm: TableArm, seed: int, changed: Sequence[str] = ()) -> Config:
    """The experiment of an arm, before its method is applied."""
    package, name = SHIPPED.get(arm.world, ("fedse_reproduce", f"{arm.world}.toml"))
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    whole = with_settings(parse_config(text, name, changed), {**arm.settings, "run.seed": seed})
    present = tuple(client for client in whole.clients if client.name not in arm.without)
    return whole.model_copy(update={"clients": present})


def _counts(arm: TableArm, config: Config) -> bool:
    """Whether a client of this experiment counts; of lone clients the others need not be run."""
    return not arm.only or any(client.name in arm.only for client in config.clients)
