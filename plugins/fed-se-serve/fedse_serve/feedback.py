"""The body of `POST /v1/feedback`, with the fields that TensorZero's has.

    {"metric_name": "solved", "value": true, "episode_id": "...", "tags": {"by": "thumb"}}

`inference_id` instead of `episode_id` is about one turn; `comment` and `demonstration` are metrics
that need no declaration; `"dryrun": true` checks the body and records nothing.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from fedse.suggest import did_you_mean
from fedse_serve.asked import Refused, json_object
from fedse_serve.rows import FeedbackRow, Value
from fedse_serve.settings import RESERVED, Metric

FIELDS = ("metric_name", "value", "episode_id", "inference_id", "tags", "dryrun")
KEY_HEADER = "idempotency-key"
LONGEST = 200
"""Characters of an id, a key, a tag's name or its value."""
TAGS = 32


class Given(NamedTuple):
    """One feedback that is in order."""

    row: FeedbackRow
    dry: bool
    """Whether nothing is to be recorded."""


def parse_feedback(
    raw: bytes, headers: Mapping[str, str], metrics: Mapping[str, Metric], *, now: float
) -> Given:
    """The feedback in a body; anything else is refused with 400 and what was expected.

    `headers` are in lower case. Whether there is such a session is not known here.
    """
    given = json_object(raw)
    for name in given:
        if name not in FIELDS:
            raise _refused(name, f"{name} is not a field{did_you_mean(name, FIELDS)}")
    about = {"session": given.get("episode_id"), "inference": given.get("inference_id")}
    if sum(one is not None for one in about.values()) != 1:
        raise _refused("episode_id", "expected exactly one of episode_id and inference_id")
    for name, one in about.items():
        if one is not None:
            _short("episode_id" if name == "session" else "inference_id", one)
    key = headers.get(KEY_HEADER)
    if key is not None:
        _short("Idempotency-Key", key)
    if not isinstance(dry := given.get("dryrun", False), bool):
        raise _wrong("dryrun", "true or false", dry)
    metric, tags = _metric(given.get("metric_name"), metrics), _tags(given.get("tags"))
    value = _value(metric, given.get("value"), metrics)
    return Given(FeedbackRow(metric, value, now, **about, tags=tags, key=key), dry)


def _metric(name: object, metrics: Mapping[str, Metric]) -> str:
    if not isinstance(name, str):
        raise _wrong("metric_name", "the name of a metric", name)
    if name not in (*metrics, *RESERVED):
        known = ", ".join(sorted((*metrics, *RESERVED)))
        near = did_you_mean(name, (*metrics, *RESERVED))
        raise _refused(
            "metric_name", f"there is no metric {name!r:.60}{near or '.'} Declared are: {known}"
        )
    return name


def _value(metric: str, value: object, metrics: Mapping[str, Metric]) -> Value:
    """The value, of the type that the metric has."""
    if metric == "comment":
        if isinstance(value, str):
            return value
        raise _wrong("value", "a text, because the metric is comment", value)
    if metric == "demonstration":
        if isinstance(value, str | list | dict) and value:
            return value
        raise _wrong("value", "the right answer, as a text, a list or an object", value)
    if metrics[metric].type == "boolean":
        if isinstance(value, bool):
            return value
        raise _wrong("value", f"true or false, because {metric} is boolean", value)
    if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value):
        return float(value)
    raise _wrong("value", f"a number, because {metric} is float", value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _tags(given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > TAGS:
        raise _wrong("tags", f"an object of at most {TAGS} texts", given)
    for name, value in given.items():
        _short("tags", name)
        _short(f"tags.{name}", value)
    return given


def _short(name: str, value: object) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST:
        raise _wrong(name, f"a text of 1 to {LONGEST} characters", value)


def _wrong(name: str, expected: str, got: object) -> Refused:
    return _refused(name, f"{name} must be {expected}, got {got!r:.60}")


def _refused(name: str, message: str) -> Refused:
    return Refused(400, "bad_feedback", message, param=name)
