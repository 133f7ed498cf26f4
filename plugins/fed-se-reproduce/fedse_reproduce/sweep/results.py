"""What the cells of a sweep achieved, each beside the first one, on the same games."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedse.stats.paired import Blocks, paired_difference
from fedse.stats.rates import Interval, Rate
from fedse.store.run_folder import installed_versions
from fedse_reproduce.jobs import RECORDS, Found, key_of
from fedse_reproduce.results import (
    BOOTSTRAP_SEED,
    AnswerTo,
    TableResult,
    all_games,
    answers,
    gather,
    worlds_of,
)
from fedse_reproduce.sweep.grid import Cell
from fedse_reproduce.tables import Job


class CellResult(NamedTuple):
    """One cell in one place, over all its seeds."""

    cell: Cell
    record: str
    """Which games: `test` = tasks that no site has, `home` = the site's own; with `-personal` by
    the adapter that the site made for itself."""
    rate: Rate
    interval: Interval
    """95 %, over games and seeds."""
    answer: AnswerTo | None
    """Its difference to the first cell; None = this is the first, or it played other games."""
    cpu_seconds: float
    """Of one seed, on average."""


def results_of(
    cells: Sequence[Cell], jobs: Sequence[Job], found: Mapping[str, Found]
) -> list[CellResult]:
    """The cells in every place where all of them were measured, place after place.

    The p-values of all differences, those of all places, are corrected together.
    """
    records = [r for r in RECORDS if all(r in found[key_of(job)].games for job in jobs)]
    named = {
        (cell.label, record): f"{record}: {cell.label}" for record in records for cell in cells
    }
    sides = [job._replace(arm=named[job.arm, r], record=r) for r in records for job in jobs]
    tasks = {arm: _tasks(sides, arm, found) for arm in named.values()}
    table = TableResult(
        table="sweep",
        quick=False,
        worlds=worlds_of(sides),
        arms=gather(sides, found),
        questions=[
            (named[cell.label, record], first)
            for record in records
            for first in [named[cells[0].label, record]]
            for cell in cells[1:]
            if tasks[named[cell.label, record]] == tasks[first]
        ],
        config={},
        versions={},
    )
    answered = {answer.question.better: answer for answer in answers(table)}
    return [
        _result(cell, record, table, named[cell.label, record], answered)
        for record in records
        for cell in cells
    ]


def _tasks(jobs: Sequence[Job], arm: str, found: Mapping[str, Found]) -> list[Any]:
    """Which games the clients of an arm played, seed by seed; equal = the same games."""
    of_arm = [(job, found[key_of(job)]) for job in jobs if job.arm == arm]
    return sorted(
        (job.seed, client, digest)
        for job, one in of_arm
        for client, digest in one.tasks[job.record].items()
    )


def _result(
    cell: Cell, record: str, table: TableResult, arm: str, answered: Mapping[str, AnswerTo]
) -> CellResult:
    blocks, seeds = all_games(table, arm), table.arms[arm].values()
    rate = Rate(sum(map(sum, blocks)), sum(map(len, blocks)))
    seconds = sum(seed.cpu_seconds for seed in seeds) / len(seeds)
    return CellResult(cell, record, rate, over_seeds(blocks), answered.get(arm), seconds)


def over_seeds(blocks: Blocks) -> Interval:
    """Where the success of other seeds and games would lie; never narrower than Wilson's interval.

    The two-stage bootstrap of differences, against an agent that never succeeds.
    """
    rate = Rate(sum(map(sum, blocks)), sum(map(len, blocks)))
    never = [[False] * len(block) for block in blocks]
    drawn, wilson = paired_difference(blocks, never, seed=BOOTSTRAP_SEED).interval, rate.interval
    return Interval(max(0.0, min(drawn.low, wilson.low)), min(1.0, max(drawn.high, wilson.high)))


def as_json(
    results: Sequence[CellResult], jobs: Sequence[Job], found: Mapping[str, Found], root: str
) -> dict[str, Any]:
    """All figures unrounded, and which experiments they come from."""
    return {
        "cells": [_cell_json(one) for one in results],
        "experiments": [
            {
                "cell": job.arm,
                "seed": job.seed,
                "clients": [client.name for client in job.config.clients],
                "run": f"{root}/runs/{key_of(job)}",
                "adapter": found[key_of(job)].adapter,
                "cpu_seconds": found[key_of(job)].cpu_seconds,
            }
            for job in jobs
        ],
        "versions": installed_versions(),
    }


def _cell_json(one: CellResult) -> dict[str, Any]:
    answer = one.answer
    return {
        "cell": one.cell.label,
        "settings": dict(one.cell.values),
        "record": one.record,
        "won": one.rate.successes,
        "played": one.rate.n,
        "rate": one.rate.value,
        **one.interval._asdict(),
        "difference": answer.found.micro._asdict() | {"p_holm": answer.p_holm} if answer else None,
        "verdict": answer.verdict.value if answer else None,
        "cpu_seconds": one.cpu_seconds,
    }
