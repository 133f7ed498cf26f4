"""Verifiers judge what has ended, once."""

from pathlib import Path
from typing import Any

import pytest
from scene_records import NOON, new, opened, turn

from fedse.errors import ConfigError
from fedse_serve.labels import label_of
from fedse_serve.settings import parse_settings
from fedse_serve.stored import feedback_of, session_named
from fedse_serve.verifying import verify_ended

SEEN: list[dict[str, Any]] = []


def says_yes(session: dict[str, Any]) -> bool:
    SEEN.append(session)
    return "yes" in session["turns"][-1]["reply"]


def breaks(session: dict[str, Any]) -> bool:
    raise ValueError


def test_every_ended_session_is_judged_once(tmp_path: Path) -> None:
    SEEN.clear()
    records = opened(tmp_path)
    records.begin_all([new("s1"), new("s2"), new("s3"), new("s4", learn=False)])
    for name, reply, at in (
        ("s1", "yes", 0),
        ("s2", "no", 0),
        ("s3", "yes", 4000),
        ("s4", "yes", 0),
    ):
        records.add_turns([turn(1, "x", reply, session=name, inference=name, at=NOON + at)])
    settings = parse_settings({"verifiers": {"v": {"function": f"{__name__}:says_yes"}}}, "f")
    now = NOON + 4000
    assert verify_ended(records, settings, now=now, folder=tmp_path) == 3
    assert verify_ended(records, settings, now=now, folder=tmp_path) == 0
    assert [one["session"] for one in SEEN] == ["s1", "s2"]
    assert "person" not in SEEN[0]
    labels = []
    for name in ("s1", "s2", "s3", "s4"):
        session = session_named(records, name)
        assert session is not None
        labels.append(label_of(session, feedback_of(records, name), settings, now)[:2])
    waits = ("waiting", None)
    assert labels == [("labelled", True), ("labelled", False), waits, ("unlabelled", None)]


@pytest.mark.parametrize(
    ("verifier", "verdict"),
    [
        ({"command": ["grep", "-q", '"reply": "y"']}, True),
        ({"command": ["grep", "-q", "something else"]}, False),
        ({"command": ["sh", "-c", "exit 2"]}, "cannot tell"),
        ({"command": ["no-such-command-here"]}, "cannot tell"),
        ({"command": ["sleep", "9"], "seconds": 0.05}, "cannot tell"),
        ({"function": f"{__name__}:breaks"}, "cannot tell"),
    ],
)
def test_a_verdict_is_an_exit_code_or_a_value(
    tmp_path: Path, verifier: dict[str, Any], verdict: object
) -> None:
    records = opened(tmp_path)
    records.begin_all([new()])
    records.add_turns([turn(1, "x", "y")])
    settings = parse_settings({"verifiers": {"v": verifier}}, "f")
    verify_ended(records, settings, now=NOON + 4000, folder=tmp_path)
    assert [one.value for one in feedback_of(records, "s1")] == [verdict]


def test_a_function_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = parse_settings({"verifiers": {"v": {"function": "json:judge"}}}, "f")
    with pytest.raises(ConfigError, match=r"service\.verifiers\.v: function = 'json:judge'"):
        verify_ended(opened(tmp_path), settings, now=NOON, folder=tmp_path)
