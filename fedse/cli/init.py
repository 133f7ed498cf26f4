"""`fedse init FOLDER`: a folder with an environment to fill in, its experiment and its test.

Everything comes from the package, so no network is needed.
"""

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fedse.adapters.base import FETCHED, SHIPPED, base_path
from fedse.errors import ConfigError, MachineError, boundary

# The suffix of templates, so that no tool mistakes them for code or settings of the package.
SUFFIX = ".template"
# Placeholders in the templates for the folder and the base model.
NAME, BASE = "my-agent", "BASE"


def init_verb(
    folder: Annotated[Path, Parameter(help="The folder to make; it must be new or empty.")],
    /,
    *,
    base: Annotated[
        str, Parameter(help="The model to start from; tiny needs no download and knows few words.")
    ] = FETCHED[0],
) -> None:
    """The folder holds a working example that passes `fedse env check` and can be run."""
    made = scaffold(folder, base=base)
    print(f"made {folder} with {', '.join(path.name for path in made)}\n\nnext")
    for command, about in (
        *_get_model(base),
        (f"cd {folder}", ""),
        ("fedse env check env:MyEnv", "does the environment meet its contract?"),
        ("fedse run fedse.toml --dry-run", "can it run here, and how long will it take?"),
        ("fedse run fedse.toml", "improve an agent in it"),
        ("fedse env play env:MyEnv", "play it yourself"),
    ):
        print(f"  {command:<32}{about}".rstrip())


def _get_model(base: str) -> list[tuple[str, str]]:
    try:
        base_path(base)
    except MachineError as error:
        return [(error.hint, "the model to start from; once")]
    return []


def scaffold(folder: Path, *, base: str = FETCHED[0]) -> list[Path]:
    """All template files are in `folder`, under its name; existing files are left alone.

    A world in the few words that the shipped models know, or in plain English for other models.
    """
    _require_free(folder)
    name, kind = _experiment_name(folder), "tiny" if base in SHIPPED else "real"
    made = []
    elsewhere = "fedse init FOLDER, in a place where you may write"
    with boundary(MachineError, f"{folder} cannot be made", hint=elsewhere):
        folder.mkdir(parents=True, exist_ok=True)
        places = files("fedse.scaffold"), files("fedse.scaffold") / kind
        templates = [template for place in places for template in place.iterdir()]
        for template in sorted(templates, key=lambda entry: entry.name):
            if template.name.endswith(SUFFIX):
                path = folder / template.name.removesuffix(SUFFIX)
                text = template.read_text(encoding="utf-8").replace(NAME, name)
                text = text.replace(f'"{BASE}"', f'"{base}"')
                path.write_text(text, encoding="utf-8")
                made.append(path)
    return made


def _require_free(folder: Path) -> None:
    if folder.is_dir():
        entries = sorted(entry.name for entry in folder.iterdir())
    else:
        entries = [folder.name] if folder.exists() else []
    if entries:
        raise ConfigError(
            f"{folder} must be a new or an empty folder; it has {', '.join(entries[:3])}"
            + (f" and {len(entries) - 3} more" if len(entries) > 3 else ""),
            hint="fedse init ANOTHER-NAME",
        )


def _experiment_name(folder: Path) -> str:
    """The folder's name in the letters an experiment's name may have (fedse.types.CLIENT_NAME)."""
    name = re.sub(r"[^a-z0-9_-]+", "-", folder.resolve().name.lower())
    return name.lstrip("-_")[:64] or NAME
