"""Options that the site's commands share."""

from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fedse.cli.federation_options import require_flower
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import seal_beside
from fedse.store.lock import locked

if TYPE_CHECKING:
    from fedse.federation.home import Home

HomeOption = Annotated[Path, Parameter(help="The site's folder.")]
HERE = Path("site")


def opened(home: Path) -> "Home":
    """The site's folder, once everything that a federation needs is installed."""
    require_flower()
    from fedse.federation.home import open_home

    return open_home(home)


def buffer_of(home: Path, **how: Any) -> AbstractContextManager[Buffer]:
    """The site's buffer, opened with the site's own key."""
    database = home / "buffer.db"
    return closing(Buffer(database, seal=seal_beside(database), **how))


def idle(home: Path, command: str) -> AbstractContextManager[None]:
    """Nobody else works in the folder meanwhile; else the hint is to type `command` again."""
    again = f"stop it (Ctrl-C, or its service), then: fedse {command} --home {home}"
    return locked(home, busy=f"a site is running from {home}", hint=again)
