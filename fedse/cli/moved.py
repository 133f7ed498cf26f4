"""Commands of earlier versions, and what to type now."""

from collections.abc import Mapping, Sequence

from fedse.errors import ConfigError

MOVED: Mapping[str, str] = {
    "audit": "fedse privacy audit RUN",
    "bench": "python -m research.bench, in a checkout of the repository",
    "config check": "fedse doctor FILE",
    "federation members": "fedse privacy keys --dir FOLDER",
    "federation resume": "fedse federation start",
    "federation rotate": "fedse federation enrol FILE",
    "repair": "sqlite3 FILE .recover",
    "site audit": "fedse privacy audit --home HOME",
    "site encrypt": "fedse privacy encrypt",
    "site forget": "fedse privacy forget",
    "site ledger": "fedse ledger verify HOME; fedse ledger show HOME",
    "site members": "fedse privacy keys",
    "site privacy": "fedse privacy budget",
    "site privacy-report": "fedse privacy report",
    "site redact": "fedse privacy redact",
    "site resume": "fedse site pause --end",
    "site retrain-without": "fedse privacy forget SUBJECT --retrain",
}


def require_current(tokens: Sequence[str]) -> None:
    """Raises if the command has been renamed or moved; the hint shows the new one."""
    for words in (tokens[:1], tokens[:2]):
        old = " ".join(words)
        if old in MOVED:
            raise ConfigError(f"the command fedse {old} no longer exists", hint=MOVED[old])
