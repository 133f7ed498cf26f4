"""What the commands of a site have in common."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

HomeOption = Annotated[Path, Parameter(help="The site's folder.")]
HERE = Path("site")
