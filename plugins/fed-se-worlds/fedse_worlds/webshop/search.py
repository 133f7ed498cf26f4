"""Full-text search over the shop's documents: SQLite FTS5, BM25, ties by position.

Departure from the published shop, which uses Lucene: k1 and b are FTS5's (1.2, 0.75), not 0.9 and
0.4.
"""

import re
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock

from fedse import MachineError

# A search sees no more than this of what was typed, so that any text is cheap and safe.
MOST_TERMS = 64
LONGEST_TERM = 32
# Results kept, as queries of one task repeat in every round.
REMEMBERED = 4096

_WORD = re.compile(r"[a-z0-9]+")


def terms_of(text: str) -> tuple[str, ...]:
    """The distinct words of a query, letters and digits only, so that none is an FTS operator."""
    words = (match.group()[:LONGEST_TERM] for match in _WORD.finditer(text.lower()))
    return tuple(dict.fromkeys(words))[:MOST_TERMS]


class Index:
    """A full-text index: the numbers of the documents that contain given words."""

    def __init__(self, documents: Sequence[str]) -> None:
        # Shared by all environments of the process, whichever thread made it; the lock orders them.
        self._base = sqlite3.connect(":memory:", check_same_thread=False)
        self._lock = Lock()
        try:
            self._base.execute("CREATE VIRTUAL TABLE goods USING fts5(text, tokenize = 'porter')")
        except sqlite3.OperationalError as error:
            raise MachineError(
                f"environment 'webshop' needs SQLite with FTS5, SQLite {sqlite3.sqlite_version} "
                f"here says: {error}",
                hint="use a Python whose sqlite3 has FTS5, as those of python.org and uv have",
            ) from error
        rows = ((number, text) for number, text in enumerate(documents))
        self._base.executemany("INSERT INTO goods (rowid, text) VALUES (?, ?)", rows)
        self._best = lru_cache(maxsize=REMEMBERED)(self._rank)

    def best(self, query: str, count: int) -> tuple[int, ...]:
        """Up to `count` documents with at least one word of the query, the best first."""
        terms = terms_of(query)
        return self._best(terms, count) if terms else ()

    def _rank(self, terms: tuple[str, ...], count: int) -> tuple[int, ...]:
        match = " OR ".join(f'"{term}"' for term in terms)
        with self._lock:
            rows = self._base.execute(
                "SELECT rowid FROM goods WHERE goods MATCH ? ORDER BY bm25(goods), rowid LIMIT ?",
                (match, count),
            ).fetchall()
        return tuple(number for (number,) in rows)
