"""Settings of earlier versions: at its default one is ignored, with another value it is refused."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fedse.config.lines import Location


class Removed(NamedTuple):
    """A setting that fedse no longer has."""

    default: object
    """Its value in the run folders and experiments that never set it."""
    instead: str
    """What to do where it has another value."""


GONE = "no longer exists; remove it, or open the run with the fedse version that made it"

REMOVED: Mapping[str, Removed] = {
    "aggregate.sum": Removed("ordered", GONE),
    "clients.region": Removed(None, GONE),
    "personal.form": Removed("further", GONE),
    "personal.explore": Removed("global", GONE),
}
"""By dotted name, without indices."""


def drop_removed(raw: dict[str, Any]) -> Iterator[tuple[Location, str]]:
    """Removed settings leave `raw`; those that would have changed something are reported."""
    for name, setting in REMOVED.items():
        section, _, key = name.partition(".")
        found = raw.get(section)
        tables = found if isinstance(found, list) else [found]
        for place, table in enumerate(tables):
            if not isinstance(table, dict) or key not in table:
                continue
            value, at = table.pop(key), (place,) if isinstance(found, list) else ()
            if value != setting.default:
                location = (section, *at, key)
                yield location, f"{'.'.join(map(str, location))} {setting.instead}"
