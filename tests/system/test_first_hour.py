"""The first hour as scripts/first_hour.py plays it: its steps, and the lack of a network.

The steps themselves are played with the wheel, by `.ci/run`.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli.app import build_app
from scripts.first_hour import (
    CONFINED,
    REFUSAL,
    Confinement,
    as_json,
    confines,
    lend,
    namespaces,
    packages_of,
    play,
)
from scripts.first_hour_steps import DEVELOPER, ENGINEER, RESEARCHER, Step, files, steps
from tests.docs.test_reference import can_be_typed

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "results" / "first-hour.json"
PYTHON = Path(sys.executable)
FORMS = [pytest.param(True, id="short"), pytest.param(False, id="whole")]


@pytest.mark.parametrize("short", FORMS)
def test_every_command_can_be_typed_and_every_name_was_taken_before(short: bool):
    app, taken = build_app(), set[str]()
    assert {step.who for step in steps(short=short)} == {DEVELOPER, RESEARCHER, ENGINEER}
    for step in steps(short=short):
        assert {*re.findall(r"{(\w+)}", step.command)} <= taken, step.command
        if step.command.startswith("python "):
            assert step.command.split()[1] in files(short=short)
        else:
            assert can_be_typed(app, step.command), step.command
        taken |= {*step.takes}


@pytest.mark.parametrize("short", FORMS)
def test_what_a_user_must_see_is_never_seen_by_itself(short: bool):
    """Neither nothing, nor the command, nor the output of another program satisfies a pattern."""
    for step in steps(short=short):
        assert step.sees
        for pattern in (*step.sees, *step.takes.values()):
            for text in ("", "\n", step.command, "error: no\nhint: fedse doctor\n"):
                if not (step.exit_code and text.startswith("error")):
                    assert not re.search(pattern, text, flags=re.M), (pattern, text)


def test_the_commands_of_the_readme_are_played():
    """Those of the three doors, but for the ones that need Flower's processes or a download."""
    text = (ROOT / "README.md").read_text()
    typed = "".join(re.findall(r"```bash\n(.*?)```", text, flags=re.S)).splitlines()
    played = " ; ".join(step.command for step in steps(short=False))
    left_out = ("pip install", "fedse model get", "fedse demo desk", "fedse run demo --engine")
    wanted = [line.partition(" && ")[0] for line in typed if not line.startswith(left_out)]
    assert len(wanted) == 6
    assert [line for line in wanted if line not in played] == []


def python(code: str, *sees: str, **given: object) -> Step:
    return Step(DEVELOPER, f"{PYTHON} -c {code!r}", sees, **given)  # type: ignore[arg-type]


def test_a_step_takes_what_an_earlier_one_printed(tmp_path: Path):
    first = python("print(6 * 7)", "^42$", takes={"ANSWER": r"^(\d+)$"})
    second = python("import sys; sys.exit({ANSWER} - 39)", "^$", exit_code=3)
    taken = play([first, second._replace(sees=())], tmp_path, (), {})
    assert [took.exit_code for took in taken] == [0, 3]
    assert all(took.ok for took in taken)
    told = as_json(taken, tmp_path)
    assert [row["first"] for row in told] == [["42"], []]
    assert min(took.cpu_seconds for took in taken) > 0


@pytest.mark.parametrize(
    "step",
    [
        python("print(1)", "^2$"),
        python("import sys; print(2); sys.exit(1)", "^2$"),
        python("print(2)", "^2$", exit_code=1),
        python("print(2)", "^2$", takes={"X": "^x=(.)"}),
    ],
    ids=["not seen", "failed", "should have failed", "nothing to take"],
)
def test_a_step_that_fails_is_the_last_one(step: Step, tmp_path: Path):
    good = python("print(2)", "^2$")
    taken = play([good, step, good], tmp_path, (), {})
    assert [took.ok for took in taken] == [True, False]


def test_the_home_is_not_told(tmp_path: Path):
    (took,) = play([python("import os; print(os.getcwd())", str(tmp_path))], tmp_path, (), {})
    assert as_json([took], tmp_path)[0]["first"] == ["~"]


def test_a_namespace_has_a_loopback_interface_and_nothing_else():
    """In every way that this machine allows; the hook below needs nothing of the machine."""
    for way in namespaces(PYTHON):
        unshare = way.prefix[: way.prefix.index(str(PYTHON))]
        if not subprocess.run([*unshare, "true"], capture_output=True).returncode:
            assert confines(way, PYTHON)
            assert not confines(Confinement("loopback is down", unshare), PYTHON)


def test_the_hook_refuses_every_other_address_and_no_more():
    hooked = (str(PYTHON), "-c", f"{REFUSAL}\nexec(sys.argv[3])")
    assert confines(Confinement("hook", hooked), PYTHON)


def test_who_reaches_another_machine_is_not_confined():
    reached = CONFINED.replace("refused", "reached")
    assert reached != CONFINED
    assert not confines(Confinement("", (str(PYTHON), "-c", f"print({reached!r}, end='')")), PYTHON)


def test_lent_packages_come_after_those_of_the_environment_and_ours_are_not_lent(tmp_path: Path):
    for name in ("mine", "theirs"):
        packages_of(tmp_path / name).mkdir(parents=True)
    names = ("numpy", "six.py", "fed_se-1.dist-info", "_editable_impl_fed_se.pth", "_fed_se.pth")
    for name in (*names, "fed_se_variants-1.dist-info"):
        (packages_of(tmp_path / "theirs") / name).touch()
    lend(tmp_path / "mine", tmp_path / "theirs")
    (file,) = packages_of(tmp_path / "mine").iterdir()
    assert file.suffix == ".pth"
    lent = Path(file.read_text().strip())
    assert {path.name: path.readlink().parent for path in lent.iterdir()} == dict.fromkeys(
        ("numpy", "six.py"), packages_of(tmp_path / "theirs")
    )


def test_the_published_hour_went_through_as_its_form_says():
    told = json.loads(PUBLISHED.read_text())
    wanted = steps(short=told["form"] == "short")
    assert [row["command"] for row in told["steps"]] == [step.command for step in wanted]
    for row in told["steps"]:
        assert row["exit_code"] == row["expected_exit_code"]
        assert row["missing"] == []
        assert row["first"]
    total = sum(row["cpu_seconds"] for row in told["steps"])
    assert told["cpu_seconds"] == pytest.approx(total, abs=0.05 * len(wanted))
    assert "/tmp/" not in PUBLISHED.read_text()
