"""The packages beside the core: found by entry points, made of public names, named if missing."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import fedse
from fedse import errors
from fedse.api.checks import require_members
from fedse.cli.app import start
from fedse.config.file import parse_config
from fedse.envs.base import MOVED, env_class, make_env
from fedse.errors import ConfigError, MachineError
from fedse.plugins import (
    PACKAGES,
    missing_packages,
    module_of,
    packaged,
    plugin_names,
    plugin_version,
)
from scripts import first_hour

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PUBLIC = ("fedse", "fedse.envs", "fedse.extend")
"""Modules for packages beside the core; the names of `fedse` are in docs/reference/api.md."""


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


def is_public(module: str) -> bool:
    return module in PUBLIC or module.startswith("fedse.extend.")


def own_of(folder: Path) -> str:
    """What the package in `folder` is imported as."""
    return folder.name.replace("-se-", "se_")


@pytest.fixture
def core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where nothing but fed-se itself is installed."""
    ours = {own_of(folder) for folder in FOLDERS}
    there = errors.is_installed
    for module in ("fedse.errors", "fedse.plugins"):
        monkeypatch.setattr(f"{module}.is_installed", lambda name: name not in ours and there(name))
    monkeypatch.setattr("fedse.envs.base.plugin_names", lambda group: ())


def test_the_names_that_each_package_adds_are_those_the_core_knows():
    listed = {
        (group, folder.name): tuple(sorted(entries))
        for folder in FOLDERS
        for group, entries in project(folder).get("entry-points", {}).items()
    }
    known = {
        (group, folder.name): tuple(
            sorted(
                n for n, package in packaged(group).items() if module_of(package) == own_of(folder)
            )
        )
        for group in PACKAGES
        for folder in FOLDERS
    }
    assert {place: names for place, names in known.items() if names} == listed
    assert known["fedse.envs", "fed-se-worlds"] == ("babyai", "textcraft", "webshop")
    for (group, _), names in known.items():
        assert set(names) <= set(plugin_names(group))


def fits_one_version(folder: Path) -> bool:
    exact = re.compile(rf"fed-se(\[.+\])?=={re.escape(fedse.__version__)}")
    return any(exact.fullmatch(one) for one in project(folder)["dependencies"])


EXACT = ["fed-se-agents", "fed-se-inspect", "fed-se-reproduce", "fed-se-serve"]
"""Built on more than public names, so each fits this version of the core and no other."""


def test_who_is_built_on_more_than_public_names():
    assert [folder.name for folder in FOLDERS if fits_one_version(folder)] == EXACT


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_package_uses_nothing_but_public_names(folder: Path):
    files = sorted(folder.glob("fedse_*/**/*.py"))
    assert files
    own = own_of(folder)
    fits_one = fits_one_version(folder)
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named = {alias.name for alias in node.names if alias.name.startswith("fedse")}
            elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("fedse"):
                named = {str(node.module)}
                if node.module == "fedse" and not fits_one:
                    assert {alias.name for alias in node.names} <= {*fedse.__all__}
            else:
                continue
            foreign = {name for name in named if name.partition(".")[0] != own}
            assert fits_one or all(is_public(name) for name in foreign), path


def test_all_packages_have_the_version_of_the_core():
    assert {project(folder)["version"] for folder in FOLDERS} == {fedse.__version__}
    assert plugin_version("fedse.envs", "babyai") == fedse.__version__
    assert plugin_version("fedse.envs", "maze") is None


@pytest.mark.usefixtures("core_alone")
def test_an_environment_of_a_missing_package_names_it():
    with pytest.raises(MachineError) as caught:
        make_env("babyai")
    assert "environment 'babyai' needs fedse_worlds (part of fed-se-worlds)" in str(caught.value)
    assert caught.value.hint == "pip install fed-se-worlds"
    assert missing_packages("fedse.envs") == PACKAGES["fedse.envs"]
    with pytest.raises(ConfigError, match=r"known are agentgym, babyai, .*did you mean 'babyai'"):
        make_env("babyia")


@pytest.mark.usefixtures("core_alone")
def test_a_command_of_a_missing_package_names_it(capsys: pytest.CaptureFixture[str]):
    assert start(["reproduce", "main", "--quick"]) == MachineError.exit_code
    told = capsys.readouterr().err
    assert "fedse reproduce needs fedse_reproduce (part of fed-se-reproduce)" in told
    assert "hint: pip install fed-se-reproduce" in told


@pytest.mark.usefixtures("core_alone")
def test_all_packages_that_the_clients_lack_are_named_at_once():
    worlds = ("babyai", "maze", "webshop", "gymnasium")
    clients = "".join(f'[[clients]]\nname = "{env}"\nenv = "{env}"\n' for env in worlds)
    with pytest.raises(MachineError) as caught:
        require_members(parse_config(clients, "file"))
    assert caught.value.hint == "pip install fed-se-worlds fed-se-bridges"
    assert all(f"environment {env!r} needs" in str(caught.value) for env in worlds if env != "maze")


NEEDED = {
    "fedse demo": ("hf", "report"),
    "fedse model get": ("models",),
    "fedse init": (),
    "fedse env check": (),
    "fedse run": ("hf",),
    "fedse run demo --engine deployment": ("hf", "flower"),
    "fedse reproduce main": ("hf", "fed-se-reproduce", "fed-se-worlds"),
    "fedse view": (),
    "fedse report": ("report",),
}
"""Commands in README.md, with what they need beside the core."""


def test_the_first_hour_has_what_the_install_line_brings():
    brought = [one for one in EXTRAS[first_hour.EXTRAS] if one.startswith("fed-se-")]
    assert [Path(folder).name for folder in first_hour.BESIDE] == brought
    assert brought


def test_the_one_install_line_of_the_readme_carries_its_commands():
    text = (ROOT / "README.md").read_text()
    assert 'pip install "fed-se[demo]"' in text
    blocks = re.findall(r"^```bash\n(.+?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [part for line in "".join(blocks).splitlines() for part in line.split(" && ")]
    shown = [line for line in lines if line.startswith("fedse ")]
    assert len(shown) >= 6
    needed = {
        extra
        for line in shown
        for extra in NEEDED[max((n for n in NEEDED if line.startswith(n)), key=len)]
    }
    carried, waiting = set[str](), ["fed-se[demo]"]
    while waiting:
        name, _, extras = waiting.pop().rstrip("]").partition("[")
        carried |= {name, *extras.split(",")}
        for extra in filter(None, extras.split(",")):
            waiting += [one for one in EXTRAS[extra] if one.startswith("fed-se")]
    assert needed <= carried


@pytest.mark.parametrize(("old", "name"), MOVED.items())
def test_a_bridge_is_found_under_its_old_path(old: str, name: str):
    assert env_class(old) is env_class(name)
    assert old.endswith(f":{env_class(name).__name__}")
