"""How a SuperLink keeps its database: deleted bytes stay there until others are written over them.

SQLite is often built to write zeros over whatever is deleted, so that each adapter that passes
through is written once more.
"""

from fedse.flower.patches.replace import replace

MIXIN = "flwr.supercore.sql_mixin"
PRAGMAS = (("secure_delete", "OFF"),)
"""What is set after Flower's own."""


def keep_database_so() -> None:
    """Databases that this process opens from now on are kept so."""
    replace(
        f"{MIXIN}:SQLITE_PRAGMAS", lambda known: (*known, *PRAGMAS), f"{MIXIN}:_set_sqlite_pragmas"
    )
