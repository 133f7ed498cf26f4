"""A run's facts as tables: the rows a figure draws are the rows printed beneath it.

A cell without a value is None and is shown as a dash; a line breaks there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.config.worlds import world_names
from fedse.report.facts import RunFacts
from fedse.stats.rates import Rate, by_env, micro, rates
from fedse.types import ClientStats

Cell = str | int | float | None
Kind = Literal["text", "long", "count", "rate", "change", "number", "megabytes", "seconds"]

ALL = "all environments"
OUTCOMES = ("kept", "duplicate", "failed", "truncated", "broken")
STAGES = ("rollout", "train", "evaluate")
WORST = {"change": 1, "gain": 1, "auc": -1}
"""What clients are compared by, and in which direction it gets better."""


@dataclass(frozen=True)
class Column:
    """A key for the figure, a heading for the reader, and how its cells are written."""

    key: str
    title: str
    kind: Kind = "text"


@dataclass(frozen=True)
class Table:
    columns: tuple[Column, ...]
    rows: list[list[Cell]]

    @property
    def keys(self) -> list[str]:
        return [column.key for column in self.columns]

    def worth_a_look(self, most: int) -> list[list[Cell]]:
        """The rows, at most so many: of rounds the newest, of clients the worst."""
        if len(self.rows) <= most:
            return self.rows
        keys = self.keys
        if "round" in keys[:1]:
            return self.rows[-most:]
        by = next((key for key in WORST if key in keys), "")
        if not by:
            return self.rows[:most]
        place, sign = keys.index(by), WORST[by]
        rated = [row for row in self.rows if isinstance(row[place], int | float)]
        return sorted(rated, key=lambda row: sign * row[place])[:most]  # type: ignore[operator]

    def only(self, *keys: str) -> "Table":
        """The columns of those keys, in the order they have here."""
        picks = [i for i, column in enumerate(self.columns) if column.key in keys]
        columns = tuple(self.columns[i] for i in picks)
        return Table(columns, [[row[i] for i in picks] for row in self.rows])

    def where(self, key: str, value: Cell) -> list[dict[str, Cell]]:
        """The rows whose column `key` is `value`, by column key."""
        keys = self.keys
        at = keys.index(key)
        return [dict(zip(keys, row, strict=True)) for row in self.rows if row[at] == value]


ROUND, CLIENT = Column("round", "round", "count"), Column("client", "client")
ENVIRONMENT = Column("env", "environment")
RATE_COLUMNS = (
    Column("won", "succeeded", "count"),
    Column("played", "played", "count"),
    Column("rate", "success", "rate"),
    Column("low", "95 % from", "rate"),
    Column("high", "to", "rate"),
)


def rate_cells(rate: Rate) -> list[Cell]:
    """The cells of RATE_COLUMNS."""
    return [rate.successes, rate.n, rate.value, *rate.interval]


def success_table(facts: RunFacts) -> Table:
    """Held-out success per environment and measured round, and of all environments together."""
    rows: list[list[Cell]] = []
    for index, evals in facts.evals.items():
        for env, rate in success_by_env(rates(evals), facts.config).items():
            rows.append([index, env, *rate_cells(rate)])
    return Table((ROUND, ENVIRONMENT, *RATE_COLUMNS), rows)


def success_by_env(by_client: dict[str, Rate], config: Config) -> dict[str, Rate]:
    """Per environment; where there are several, ALL comes last."""
    names = world_names(client.env for client in config.clients)
    envs = {names[env]: rate for env, rate in by_env(by_client, config).items()}
    return envs if len(envs) < 2 else {**envs, ALL: micro(list(envs.values()))}


def client_table(
    facts: RunFacts, columns: Sequence[Column], cells: Callable[[ClientStats], list[Cell]]
) -> Table:
    """One row per round and client; clients that did not answer have no values."""
    empty: list[Cell] = [None] * len(columns)
    rows: list[list[Cell]] = []
    for result in facts.results:
        for client in facts.clients:
            stats = result.stats.get(client)
            rows.append([result.index, client, *(cells(stats) if stats else empty)])
    return Table((ROUND, CLIENT, *columns), rows)


def outcome_table(facts: RunFacts) -> Table:
    """The fate of every episode that was played for training."""
    columns = [Column("played", "played", "count"), *(Column(o, o, "count") for o in OUTCOMES)]
    select = facts.config.select.type
    return client_table(facts, columns, lambda s: [s.played, *outcomes(s, select)])


def outcomes(stats: ClientStats, select: str) -> tuple[int, ...]:
    """The episodes of a round by their fate, as in OUTCOMES; they add up to those played.

    Under `select = all` failed and truncated episodes are candidates too, so what was not kept
    and did not break was there before. Under `hindsight` some of them are kept as another task's
    success, which the counts do not tell apart.
    """
    if select == "all":
        return stats.added, stats.played - stats.broken - stats.added, 0, 0, stats.broken
    duplicate = max(0, stats.succeeded - stats.added)
    lost = stats.played - stats.broken - stats.added - duplicate
    truncated = min(lost, stats.truncated)
    return stats.added, duplicate, lost - truncated, truncated, stats.broken


def traffic_table(facts: RunFacts) -> Table:
    """Bytes of adapters moved, from the first round on."""
    up = accumulate(result.bytes_up for result in facts.results)
    down = accumulate(result.bytes_down for result in facts.results)
    rows: list[list[Cell]] = [[0, 0.0, 0.0]] if facts.results else []
    rows += [
        [result.index, sent / 1e6, received / 1e6]
        for result, sent, received in zip(facts.results, up, down, strict=True)
    ]
    megabytes = (Column("up", "up, MB", "megabytes"), Column("down", "down, MB", "megabytes"))
    return Table((ROUND, *megabytes), rows)


def drift_table(facts: RunFacts) -> Table:
    """How each voter's update relates to the merged one; abstaining clients have no values."""
    rows: list[list[Cell]] = []
    for result in facts.results:
        length = result.drift.length if result.drift else {}
        cosine = result.drift.cosine if result.drift else {}
        for client in facts.clients:
            rows.append([result.index, client, cosine.get(client), length.get(client)])
    columns = (Column("cosine", "cosine", "number"), Column("length", "length", "number"))
    return Table((ROUND, CLIENT, *columns), rows)


def merge_error_table(facts: RunFacts) -> Table:
    rows: list[list[Cell]] = [
        [result.index, result.drift.merge_error if result.drift else None]
        for result in facts.results
    ]
    return Table((ROUND, Column("error", "relative error", "number")), rows)


def stage_table(facts: RunFacts) -> Table:
    """Seconds per round: of all clients together by stage, and by the wall clock."""
    by_index = {result.index: result for result in facts.results}
    rows: list[list[Cell]] = [
        [index, *_stage_cells(by_index.get(index), facts.evals.get(index, {}))]
        for index in sorted({*by_index, *facts.evals})
    ]
    stages = (Column(stage, stage, "seconds") for stage in STAGES)
    return Table((ROUND, *stages, Column("wall", "wall clock", "seconds")), rows)


def _stage_cells(result: RoundResult | None, evals: dict[str, ClientStats]) -> list[Cell]:
    stats = result.stats.values() if result else ()
    return [
        sum(s.rollout_seconds for s in stats),
        sum(s.train_seconds for s in stats),
        sum(s.eval_seconds for s in evals.values()),
        result.seconds if result else None,
    ]


def missing_table(facts: RunFacts) -> Table:
    """Every client and round whose adapter did not count, and why."""
    columns = (ROUND, CLIENT, Column("what", "what"), Column("why", "why", "long"))
    return Table(columns, [row for result in facts.results for row in _missing(result)])


def _missing(result: RoundResult) -> Iterator[list[Cell]]:
    for exclusion in result.excluded:
        told = ["excluded", exclusion.text]
        if exclusion.kind not in ("rejected", "failed"):
            told = [exclusion.kind, exclusion.reason]
        yield [result.index, exclusion.client, *told]
    for client in result.absent:
        yield [result.index, client, "absent", "no answer before the deadline, or a fault"]
    for client in result.abstained:
        yield [result.index, client, "abstained", "nothing in its buffer to learn from"]
