"""What a run achieved: its rounds, its adapters, and held-out success with intervals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.errors import StoreError
from fedse.results.alarms import Alarm, course_alarms, round_alarms
from fedse.results.best_rounds import best_rounds
from fedse.results.role_course import Validations, validations_of
from fedse.stats.rates import (
    PLACES,
    Interval,
    Mean,
    Rate,
    by_env,
    change,
    macro,
    micro,
    rates,
)
from fedse.store.run import Run


class Change(NamedTuple):
    """Success on the same held-out tasks, with an earlier and a later adapter."""

    before: Rate
    after: Rate

    @property
    def value(self) -> float:
        return self.after.value - self.before.value

    @property
    def interval(self) -> Interval:
        """95 %; the two rates are treated as independent, which makes it rather wide."""
        return change(self.before, self.after)


@dataclass(frozen=True)
class RunResult:
    """A run up to its last committed round."""

    path: Path
    """The run's folder."""
    config: Config
    rounds: tuple[RoundResult, ...]
    """Every committed round, in order."""
    adapters: Mapping[int, Path]
    """Round -> folder with the global adapter after it, as PEFT loads it."""
    success: Mapping[int, Mapping[str, Rate]]
    """Round -> client -> success of the adapter after that round in held-out games; 0 = untrained.
    A rate has a `value` and an `interval`."""
    places: Mapping[str, Mapping[str, Rate]]
    """Place -> client -> success in the newest evaluation. Places are `test` = tasks that no client
    has and `home` = the client's own, with `-personal` appended for its personal adapter."""

    best_rounds: Mapping[str, tuple[int, Rate]] = field(default_factory=dict)
    """Block of the adapter -> the round after which it did best in validation games, if an agent of
    several roles has blocks of its own for them and `gate.episodes` is above 0."""
    validations: Validations = field(default_factory=dict)
    """Of an agent with roles: digest of a global adapter -> client -> validation games won and
    played."""

    @property
    def finished(self) -> bool:
        return len(self.rounds) == self.config.run.rounds

    @property
    def by_environment(self) -> dict[str, Change]:
        """From round 0 to the last committed round, over the clients measured both times."""
        return self._changes(0)

    def _changes(self, round: int) -> dict[str, Change]:
        first, last = self.success.get(round, {}), self.success.get(len(self.rounds), {})
        both = [client for client in first if client in last]
        before = by_env({client: first[client] for client in both}, self.config)
        after = by_env({client: last[client] for client in both}, self.config)
        return {env: Change(before[env], after[env]) for env in before}

    @property
    def overall(self) -> Change | None:
        """All held-out games together; None if success was not measured at both ends."""
        return _together(self._changes(0))

    @property
    def alarms(self) -> list[Alarm]:
        """What kept the agent from learning in the last committed round."""
        if not self.rounds:
            return []
        told = course_alarms(self.rounds, self.config, self.validations)
        return [*round_alarms(self.rounds[-1], self.config), *told]

    @property
    def since_warm_start(self) -> Change | None:
        """What exploration added to the demonstrations; None without a warm start."""
        warm = self.config.warmstart.rounds
        return _together(self._changes(warm)) if 0 < warm < len(self.rounds) else None

    @property
    def mean_of_environments(self) -> tuple[Mean, Mean] | None:
        """Before and after, counting every environment equally; None if not measured."""
        changes = list(self.by_environment.values())
        if not changes:
            return None
        return macro([c.before for c in changes]), macro([c.after for c in changes])


def _together(changes: Mapping[str, Change]) -> Change | None:
    if not changes:
        return None
    before = micro([change.before for change in changes.values()])
    return Change(before, micro([change.after for change in changes.values()]))


def result_of(run: Run) -> RunResult:
    """What `run` has committed so far."""
    rounds = tuple(run.results())
    evals = {index: run.evals(index) for index in range(len(rounds) + 1)}
    measured = {index: found for index, stats in evals.items() if (found := rates(stats))}
    newest = evals[max(measured)] if measured else {}
    return RunResult(
        path=run.path,
        config=run.config,
        rounds=rounds,
        adapters={index: run.adapter_folder(index) for index in run.kept_rounds() if index},
        success=measured,
        places={place: found for place in PLACES if (found := rates(newest, place))},
        best_rounds=best_rounds(run),
        validations=validations_of(run, rounds),
    )


def committed_round(run: Run, round: int | None) -> int:
    """`round` if it is committed; for None, the last committed round."""
    last = run.committed or 0
    if round is None:
        return last
    if not 0 <= round <= last:
        raise StoreError(
            f"run {run.path.name} has no round {round}; rounds 0 to {last} are committed",
            hint=f"give a round from 0 to {last}",
        )
    return round
