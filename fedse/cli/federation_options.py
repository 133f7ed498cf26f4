"""Options and checks that the coordinator's commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fedse.errors import require_all, require_packages

if TYPE_CHECKING:
    from fedse.federation.folder import Federation

Folder = Annotated[Path, Parameter(name="--dir", help="The federation's folder.")]
SiteName = Annotated[str, Parameter(help="A site of the experiment.")]
HERE = Path("federation")


def require_flower() -> None:
    """What a federation needs is installed, or the error shows the command that installs it."""
    require_packages("a federation", "flwr", "cryptography", extra="flower")


def opened(folder: Path) -> "Federation":
    """The federation in `folder`, once everything that it needs is installed."""
    require_flower()
    from fedse.federation.folder import open_federation

    return open_federation(folder)


def require_flower_and_model() -> None:
    """What a site needs to play and to train is installed, besides what a federation needs."""
    from fedse.api.checks import require_machine

    require_all(require_flower, lambda: require_machine("local"))
