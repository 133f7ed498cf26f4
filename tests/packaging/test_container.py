"""The Containerfile names what exists; no engine is here to build it."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from fedse.flower.ops.commands import QUIET
from tests.packaging.shipped import PACKAGING, unknown_options

ROOT = Path(__file__).parents[2]
README = (PACKAGING / "container" / "README.md").read_text()
TEXT = (PACKAGING / "container" / "Containerfile").read_text()
# Comments out, continued lines joined.
LINES = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()


def arguments(instruction: str) -> list[str]:
    return [
        line.removeprefix(f"{instruction} ") for line in LINES if line.startswith(f"{instruction} ")
    ]


def test_it_is_built_from_the_small_python_image_and_its_own_stages():
    stages = [line.split(" AS ") for line in arguments("FROM")]
    names = [name for _, name in stages]
    assert stages[0] == ["python:3.11-slim", "base"]
    assert len(stages) == 6
    assert all(source in names for source, _ in stages[1:])
    assert re.findall(r"--from=(\S+)", TEXT) == ["coordinator-packages", "site-packages"]


@pytest.mark.parametrize("command", arguments("CMD"))
def test_the_commands_exist(command: str, capsys: pytest.CaptureFixture[str]):
    assert unknown_options(json.loads(command), capsys) == set()


def test_both_images_run_fedse_as_nobody_in_particular():
    assert arguments("ENTRYPOINT") == ['["fedse"]'] * 2
    assert arguments("USER") == ["10001:10001"] * 2


def test_the_health_check_asks_where_the_command_serves():
    coordinator = json.loads(arguments("CMD")[0])
    address = coordinator[coordinator.index("--metrics") + 1]
    (check,) = arguments("HEALTHCHECK")
    assert f"http://{address}/health" in check
    python, flag, code = json.loads(check.partition("CMD ")[2])
    assert (python, flag) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")


def test_extras_and_files_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"\.whl\)\[([\w,]+)\]", TEXT)
    assert named == ["flower,metrics", "flower,hf"]
    assert {e for one in named for e in one.split(",")} <= set(extras["optional-dependencies"])
    copied = [line.split()[:-1] for line in arguments("COPY") if not line.startswith("--from")]
    assert copied
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name


def test_nothing_calls_home():
    given = dict(pair.split("=", 1) for line in arguments("ENV") for pair in line.split())
    assert given.items() >= QUIET.items()


def test_the_readme_names_real_targets_and_verbs(capsys: pytest.CaptureFixture[str]):
    stages = {line.split(" AS ")[1] for line in arguments("FROM")}
    assert set(re.findall(r"--target (\S+)", README)) <= stages
    (create,) = [line for line in README.splitlines() if " federation create " in line]
    words = shlex.split(create)
    assert unknown_options(words[words.index("federation") :], capsys) == set()
