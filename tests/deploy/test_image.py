"""The Containerfile: hadolint accepts it, it names what exists, the images lack what they can."""

import json
import re
import subprocess
import tomllib

import pytest

from tests.needs import needs

needs("yaml")

from fedse.flower.ops.commands import QUIET
from scripts.lock_requirements import EXTRAS
from tests.deploy.rendered import COORDINATOR_HEALTH, DEPLOY, ROOT, SITE_HEALTH, program
from tests.packaging.shipped import unknown_options

FILE = DEPLOY / "image" / "Containerfile"
GUIDE = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
TEXT = FILE.read_text()
# Comments out, continued lines joined.
LINES = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()
STAGES = [line.split()[1::2] for line in LINES if line.startswith("FROM ")]
FINAL = ("coordinator", "site")


def arguments(instruction: str, stage: str | None = None) -> list[str]:
    """What follows the instruction, in the whole file or in one stage."""
    found, here = [], ""
    for line in LINES:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            here = rest.split()[-1]
        if word == instruction and stage in (None, here):
            found.append(rest)
    return found


def ancestors(stage: str) -> list[str]:
    """The stage and those it is made from."""
    source = {name: source for source, name in STAGES}.get(stage)
    return [stage, *ancestors(source)] if source else []


def test_hadolint_has_nothing_to_say():
    command = [program("hadolint"), str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_there_is_one_base_and_it_can_be_pinned():
    """A digest, or the line in the guide that gives one."""
    assert STAGES[0] == ["${BASE}", "python"]
    (base,) = [one for one in arguments("ARG") if one.startswith("BASE=")]
    assert "@sha256:" in base or "--build-arg BASE=debian@sha256:" in GUIDE
    names = [name for _, name in STAGES]
    assert all(source in names for source, _ in STAGES[1:])
    assert set(re.findall(r"--from=(\S+)", TEXT)) <= set(names)


@pytest.mark.parametrize("stage", FINAL)
def test_an_image_has_no_build_tools(stage: str):
    inside = ancestors(stage)
    assert "tools" not in inside
    installed = [
        word
        for each in inside
        for line in arguments("RUN", each)
        for part in re.findall(r"apt-get install ([^&]+)", line)
        for word in part.split()
        if not word.startswith("--")
    ]
    assert set(installed) == {"python3", "tini"} | ({"nginx-light"} & set(installed))
    assert ("nginx-light" in installed) is (stage == "coordinator")
    copied = [line for each in inside for line in arguments("COPY", each)]
    assert copied == [f"--from={stage}-packages /opt/fedse /opt/fedse"]


@pytest.mark.parametrize("stage", FINAL)
def test_an_image_runs_fedse_as_nobody_in_particular(
    stage: str, capsys: pytest.CaptureFixture[str]
):
    assert arguments("ENTRYPOINT", stage) == ['["tini", "--", "fedse"]']
    assert arguments("USER", stage) == ["10001:10001"]
    (command,) = arguments("CMD", stage)
    words = json.loads(command)
    assert unknown_options(words, capsys) == set()
    assert unknown_options([*words, "--no-such-option"], capsys) == {"--no-such-option"}
    assert words[3].startswith("/data/")


@pytest.mark.parametrize(
    ("stage", "asked"), [(FINAL[0], COORDINATOR_HEALTH), (FINAL[1], SITE_HEALTH)]
)
def test_health_is_asked_as_everywhere(stage: str, asked: list[str]):
    (check,) = arguments("HEALTHCHECK", stage)
    assert json.loads(check.partition("CMD ")[2]) == asked


def test_the_coordinator_serves_where_its_health_is_asked():
    words = json.loads(arguments("CMD", "coordinator")[0])
    address = words[words.index("--metrics") + 1]
    assert f"http://{address}/health" in COORDINATOR_HEALTH[2]
    compile(COORDINATOR_HEALTH[2], "HEALTHCHECK", "exec")


@pytest.mark.parametrize("stage", FINAL)
def test_extras_and_files_exist(stage: str):
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (line,) = arguments("RUN", f"{stage}-packages")
    image, extras = re.findall(r'install\.sh (\w+) "([\w,]+)"', line)[0]
    assert (image, tuple(extras.split(","))) == (stage, EXTRAS[stage])
    assert set(EXTRAS[stage]) <= set(known["optional-dependencies"])
    copied = [one.split()[:-1] for one in arguments("COPY") if not one.startswith("--from")]
    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []


def test_only_what_is_locked_is_installed():
    """Every installation demands hashes, or is of the wheel that was just built."""
    script = (DEPLOY / "image" / "install.sh").read_text().replace("\\\n", " ")
    installs = [
        line
        for line in [*arguments("RUN"), *script.splitlines()]
        if re.search(r"pip install", line) and "--dry-run" not in line
    ]
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes" in line or '--no-deps --offline "$wheel"' in line


def test_nothing_calls_home():
    given = dict(pair.split("=", 1) for line in arguments("ENV") for pair in line.split())
    assert given.items() >= QUIET.items()
    # What a library writes to the user's home goes where it may write.
    assert given["HOME"] == "/tmp"
