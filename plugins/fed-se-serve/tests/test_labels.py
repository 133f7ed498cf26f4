"""What a session was, from what was reported about it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scene_records import NOON, PLAIN

from fedse_serve.labels import DAY, Coverage, Label, coverage, first_label, label_of
from fedse_serve.rows import StoredFeedback, StoredSession
from fedse_serve.settings import ServiceSettings, parse_settings

SETTINGS = parse_settings(
    {
        "metrics": {
            "solved": {"type": "boolean", "wait_days": 2},
            "rating": {"type": "float", "at_least": 4, "wait_days": 1},
            "seconds": {"type": "float"},
        }
    },
    "site.toml",
)
ONE = parse_settings({"metrics": {"solved": {"type": "boolean", "wait_days": 2}}}, "site.toml")
LATER = NOON + 10 * DAY


def session(**changed: Any) -> StoredSession:
    facts = {"first": NOON, "last": NOON, "person": None, "application": "shop", "arm": "stable"}
    own = {"adapter": PLAIN, "share": 0.0, "learn": True, "held_out": False, "ended": NOON}
    return StoredSession(**{"session": "s1", **facts, **own, "turns": 1, **changed})


def said(metric: str, value: Any, at: float = NOON, inference: str | None = None) -> StoredFeedback:
    return StoredFeedback(f"{metric}{at}", "s1", inference, metric, value, at, {})


def test_no_report_is_never_a_success() -> None:
    assert label_of(session(), [], SETTINGS, NOON).state == "waiting"
    assert label_of(session(), [], SETTINGS, LATER) == Label("unlabelled", None, None)
    comment = [said("comment", "good"), said("seconds", 3.0)]
    assert label_of(session(), comment, SETTINGS, LATER) == Label("unlabelled", None, None)


@pytest.mark.parametrize(
    ("values", "now", "label"),
    [
        ([said("solved", False)], NOON, Label("labelled", False, NOON)),
        ([said("solved", True)], NOON, Label("waiting", None, None)),  # for a rating
        ([said("solved", True)], NOON + DAY, Label("labelled", True, NOON + DAY)),
        ([said("solved", True), said("rating", 4.0, NOON + 9)], NOON + 9,
         Label("labelled", True, NOON + 9)),
        ([said("solved", True), said("rating", 3.0, NOON + 9)], NOON + 9,
         Label("labelled", False, NOON + 9)),
        ([said("rating", 5.0)], NOON + DAY, Label("waiting", None, None)),
        ([said("rating", 5.0)], NOON + 2 * DAY, Label("labelled", True, NOON + 2 * DAY)),
    ],
)  # fmt: skip
def test_all_that_is_reported_counts(
    values: list[StoredFeedback], now: float, label: Label
) -> None:
    assert label_of(session(), values, SETTINGS, now) == label


def test_the_newest_report_of_a_metric_wins() -> None:
    values = [said("solved", False, NOON + 1), said("solved", True, NOON + 5 * DAY)]
    assert label_of(session(), values, ONE, NOON + DAY).success is False
    assert label_of(session(), values, ONE, LATER) == Label("labelled", True, NOON + 5 * DAY)
    assert label_of(session(), values[::-1], ONE, LATER).success is True


def test_a_turn_that_failed_makes_a_session_that_failed() -> None:
    values = [said("solved", False, NOON, "i1"), said("solved", True, NOON + 1, "i2")]
    assert label_of(session(), values, ONE, LATER).success is False
    values.append(said("solved", True, NOON + 2, "i1"))
    assert label_of(session(), values, ONE, LATER).success is True


def test_a_session_that_goes_on_waits() -> None:
    values = [said("solved", True)]
    going_on = session(ended=None)
    assert label_of(going_on, values, ONE, NOON + 1799).state == "waiting"
    assert label_of(going_on, values, ONE, NOON + 1800) == Label("labelled", True, NOON + 1800)


def test_a_verifier_that_cannot_tell_is_not_waited_for() -> None:
    settings = parse_settings({"verifiers": {"tests": {"command": ["x"]}}}, "site.toml")
    assert label_of(session(), [], settings, NOON).state == "waiting"
    unsure = [said("tests", "cannot tell")]
    assert label_of(session(), unsure, settings, NOON).state == "unlabelled"
    assert label_of(session(), [said("tests", True)], settings, NOON).success is True


reports = st.lists(
    st.tuples(
        st.sampled_from(["solved", "rating", "seconds", "comment"]),
        st.booleans(),
        st.integers(0, 30),
    ),
    max_size=6,
)


@given(reports, st.integers(0, 20), st.integers(0, 20))
def test_a_label_depends_on_the_past_only(
    given_reports: list[tuple[str, bool, int]], days: int, more: int
) -> None:
    now = NOON + days * DAY
    values = [_as_said(metric, good, NOON + day * DAY) for metric, good, day in given_reports]
    past = [one for one in values if one.at <= now]
    label = label_of(session(), values, SETTINGS, now)
    assert label == label_of(session(), past, SETTINGS, now)
    if label.since is not None:
        assert label.since <= now
        # What was known then is what is known now, unless something was reported in between.
        then = label_of(session(), past, SETTINGS, now + more * DAY)
        assert then == label


def _as_said(metric: str, good: bool, at: float) -> StoredFeedback:
    value: Any = {"solved": good, "rating": 5.0 if good else 1.0, "seconds": 1.0}.get(metric, "x")
    return said(metric, value, at)


def test_coverage_is_counted_per_arm() -> None:
    done, none = Label("labelled", True, NOON), Label("unlabelled", None, None)
    waits = Label("waiting", None, None)
    arms = [("stable", done), ("stable", none), ("stable", none), ("canary", waits)]
    counted = coverage(arms)
    assert counted == {"stable": Coverage(1, 2, 0), "canary": Coverage(0, 0, 1)}
    assert counted["stable"].share == pytest.approx(1 / 3)
    assert counted["canary"].share is None


def test_without_metrics_nothing_is_a_success() -> None:
    values = [said("solved", True)]
    assert label_of(session(), values, ServiceSettings(), LATER).state == "unlabelled"


@given(
    st.lists(
        st.tuples(st.sampled_from(["solved", "rating"]), st.booleans(), st.floats(0, 3 * DAY)),
        max_size=5,
    ),
    st.floats(0, 4 * DAY),
    st.floats(0, 4 * DAY),
)
def test_the_first_label_does_not_change_when_more_is_said(
    reports: list[tuple[str, bool, float]], early: float, late: float
) -> None:
    values = [
        said(metric, good if metric == "solved" else 1.0 + 4 * good, NOON + at)
        for metric, good, at in reports
    ]
    early, late = sorted((early, late))
    before = first_label(session(), values, SETTINGS, NOON + early)
    after = first_label(session(), values, SETTINGS, NOON + late)
    if before.state == "labelled":
        assert after == before
    assert (after.state == "labelled") >= (before.state == "labelled")


def test_a_correction_amends_the_label_and_not_the_first_one() -> None:
    values = [said("solved", True, NOON + 1), said("solved", False, NOON + 2)]
    assert label_of(session(), values, ONE, LATER).success is False
    assert first_label(session(), values, ONE, LATER) == Label("labelled", True, NOON + 1)
