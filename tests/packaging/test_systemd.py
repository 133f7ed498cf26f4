"""The units: systemd reads them, their commands exist, their walls stand."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from fedse.flower.ops.commands import QUIET
from tests.needs import optional
from tests.packaging.shipped import PACKAGING, unknown_options

UNITS = sorted((PACKAGING / "systemd").glob("*.service"))
PROGRAM = "/opt/fedse/bin/fedse"
# Known from systemd 254 on; an earlier one warns and restarts after the same delay each time.
NEW_KEYS = ("RestartSteps", "RestartMaxDelaySec")
WALLS = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "CapabilityBoundingSet": "",
    "UMask": "0077",
    "StateDirectoryMode": "0700",
    "Restart": "on-failure",
    "KillMode": "mixed",
}

each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
with_systemd = optional("systemd-analyze")


def settings(unit: Path) -> dict[str, list[str]]:
    """Values by key, in the order of the file."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if not line.startswith(("#", "[")) and line:
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_there_is_a_unit_for_either_side():
    assert [unit.name for unit in UNITS] == ["fedse-federation.service", "fedse-site@.service"]


@each_unit
def test_the_command_exists(unit: Path, capsys: pytest.CaptureFixture[str]):
    (line,) = settings(unit)["ExecStart"]
    program, *words = shlex.split(line)
    assert program == PROGRAM
    assert unknown_options(words, capsys) == set()
    assert unknown_options([*words, "--no-such-option"], capsys) == {"--no-such-option"}


@each_unit
def test_the_walls_stand_and_only_the_home_is_writable(unit: Path):
    found = settings(unit)
    assert {key: found[key] for key in WALLS} == {key: [value] for key, value in WALLS.items()}
    (state,), (writable,) = found["StateDirectory"], found["ReadWritePaths"]
    assert writable == f"%S/{state}"
    (line,) = found["ExecStart"]
    (home,) = re.findall(r"--(?:dir|home) (\S+)", line)
    assert home == writable or home.startswith(f"{writable}/")
    assert found["User"] != ["root"]
    assert "MemoryMax" in found


@each_unit
def test_nothing_calls_home(unit: Path):
    given = dict(
        pair.split("=", 1) for line in settings(unit)["Environment"] for pair in line.split()
    )
    assert given.items() >= QUIET.items()


@with_systemd
@each_unit
def test_systemd_reads_it(unit: Path, tmp_path: Path):
    """All but the program, which is elsewhere on this machine."""
    assert complaints(tmp_path / unit.name, unit.read_text()) == []


@with_systemd
def test_systemd_would_complain(tmp_path: Path):
    text = UNITS[0].read_text().replace("Type=exec", "Type=exec\nNoNewPrivilege=yes")
    (told,) = complaints(tmp_path / UNITS[0].name, text)
    assert "NoNewPrivilege" in told


def complaints(copy: Path, text: str) -> list[str]:
    """What `systemd-analyze verify` has to say, but for keys newer than it is."""
    copy.write_text(text.replace(PROGRAM, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert done.returncode == 0, lines
    return [line for line in lines if not re.search(rf"'({'|'.join(NEW_KEYS)})'", line)]
