"""What the commands of a coordinator have in common."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.errors import require_packages

Folder = Annotated[Path, Parameter(name="--dir", help="The federation's folder.")]
SiteName = Annotated[str, Parameter(help="A client of the experiment.")]
HERE = Path("federation")


def require_flower() -> None:
    """What a federation needs is installed, or the error says which line installs it."""
    require_packages("a federation", "flwr", "cryptography", extra="flower")
