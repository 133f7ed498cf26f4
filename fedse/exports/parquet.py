"""Episodes as one Parquet file that TRL and `datasets` read: one chat a row, in `messages`.

The file is complete or absent, and only its owner can read it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from fedse.adapters.peft_folder import ELSEWHERE
from fedse.errors import StoreError, boundary, require_packages
from fedse.store.files import OWNER_ONLY, new_file

# Rows that are in memory at once.
ROWS = 1000
COLUMNS: Mapping[str, str] = {
    "id": "string",
    "run_id": "string",
    "round": "int64",
    "client": "string",
    "env": "string",
    "task_id": "string",
    "seed": "int64",
    "split": "string",
    "messages": "messages",
    "reward": "float64",
    "success": "bool_",
    "outcome": "string",
    "turns": "int64",
    "adapter": "string",
    "demonstration": "bool_",
    "kept": "bool_",
    "drop_reason": "string",
}
"""Columns and the Arrow type of each; `messages` is a list of {role, content}."""


def write_parquet(rows: Iterable[Mapping[str, Any]], out: Path) -> int:
    """`out` holds `rows`, as `fedse.exports.episodes.rows_of` makes them; returns their number."""
    require_packages("Parquet", "pyarrow", extra="parquet")
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    text = pyarrow.string()
    chat = pyarrow.list_(pyarrow.struct([("role", text), ("content", text)]))
    kinds = {name: getattr(pyarrow, kind, None) for name, kind in COLUMNS.items()}
    schema = pyarrow.schema([(name, kind() if kind else chat) for name, kind in kinds.items()])
    count = 0
    with (
        boundary(StoreError, f"{out} cannot be written", hint=ELSEWHERE),
        new_file(out, mode=OWNER_ONLY) as temporary,
        ParquetWriter(temporary, schema) as writer,
    ):
        for chunk in _chunks(rows):
            writer.write_table(pyarrow.Table.from_pylist(chunk, schema=schema))
            count += len(chunk)
    return count


def _chunks(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    left = iter(rows)
    while chunk := list(islice(left, ROWS)):
        yield chunk
