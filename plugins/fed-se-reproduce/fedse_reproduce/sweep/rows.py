"""Every count of a sweep as one long table, for pandas and other tools."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from fedse.config.file import parse_value
from fedse.errors import ConfigError, require_packages
from fedse.store.files import new_file, write_durably
from fedse_reproduce.jobs import Found, key_of
from fedse_reproduce.sweep.grid import Cell
from fedse_reproduce.tables import Job

Row = dict[str, Any]
FORMATS = (".parquet", ".csv", ".json")


def require_format(file: Path) -> None:
    """The file's name ends in one of FORMATS, and what that needs is installed."""
    if file.suffix not in FORMATS:
        raise ConfigError(f"--table must end in {', '.join(FORMATS)}, got {file.name!r}")
    if file.suffix == ".parquet":
        require_packages("Parquet", "pyarrow", extra="parquet")


def rows_of(
    cells: Sequence[Cell], jobs: Sequence[Job], found: Mapping[str, Found]
) -> Iterator[Row]:
    """One row per cell, seed, round, client and record: how many games were played and won.

    Every axis of the grid has a column of its own, with numbers where all its values are.
    """
    axes = {key: _typed([cell.values[key] for cell in cells]) for key in cells[0].values}
    of_cell = {cell.label: {k: axes[k][v] for k, v in cell.values.items()} for cell in cells}
    for job in jobs:
        env_of = {client.name: client.env for client in job.config.clients}
        for record, by_round in found[key_of(job)].games.items():
            for round, by_client in by_round.items():
                for client, games in by_client.items():
                    yield {
                        "cell": job.arm,
                        **of_cell[job.arm],
                        "seed": job.seed,
                        "round": round,
                        "client": client,
                        "env": env_of[client],
                        "record": record,
                        "played": len(games),
                        "won": games.count("1"),
                    }


def _typed(values: Sequence[str]) -> dict[str, Any]:
    """What each value stands for: all are numbers, or all are text."""
    parsed = {value: parse_value(value) for value in values}
    if all(isinstance(one, int) and not isinstance(one, bool) for one in parsed.values()):
        return parsed
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in parsed.values()):
        return {value: float(one) for value, one in parsed.items()}
    return {value: str(one) for value, one in parsed.items()}


def write_rows(rows: Sequence[Row], file: Path) -> None:
    """`file` holds the rows, as its name says."""
    if file.suffix == ".parquet":
        import pyarrow
        from pyarrow.parquet import write_table

        with new_file(file) as temporary:
            write_table(pyarrow.Table.from_pylist(rows), temporary)
    elif file.suffix == ".json":
        write_durably(file, (json.dumps(rows) + "\n").encode())
    else:
        text = StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_durably(file, text.getvalue().encode())
