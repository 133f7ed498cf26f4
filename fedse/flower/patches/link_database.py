"""How a SuperLink keeps its database: deleted bytes stay until they are written over, and it waits.

SQLite is often built to write zeros over whatever is deleted, so that each adapter that passes
through is written once more. And after five seconds in which others write it gives up, as it must
when many sites answer at the same time.
"""

from fedse.flower.patches.replace import replace

MIXIN = "flwr.supercore.sql_mixin"
PRAGMAS = (("secure_delete", "OFF"), ("busy_timeout", "60000"))
"""What is set after Flower's own; the second is in milliseconds."""


def keep_database_so() -> None:
    """Databases that this process opens from now on are kept so."""
    replace(
        f"{MIXIN}:SQLITE_PRAGMAS", lambda known: (*known, *PRAGMAS), f"{MIXIN}:_set_sqlite_pragmas"
    )
