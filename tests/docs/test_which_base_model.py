"""What docs/how-to/which-base-model.md says: its commands can be typed, its alarms exist."""

import re
from pathlib import Path

from fedse.cli.app import build_app
from fedse.results.alarms import RULES
from tests.docs.test_reference import can_be_typed

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "which-base-model.md").read_text()


def test_the_commands_can_be_typed():
    lines = "".join(re.findall(r"^```bash\n(.*?)^```", PAGE, flags=re.M | re.S)).splitlines()
    assert len(lines) == 4
    app = build_app()
    assert [line for line in lines if not can_be_typed(app, line)] == []


def test_every_alarm_is_told_of_and_no_other():
    (table,) = re.findall(r"^\| alarm .*?\n\n", PAGE, flags=re.M | re.S)
    told = re.findall(r"^\| `([a-z-]+)`", table, flags=re.M)
    others = ["nobody-voted", "role-captured", "role-cliff"]
    assert sorted(told) == sorted([*(rule.name for rule in RULES), *others])
