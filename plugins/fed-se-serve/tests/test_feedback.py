"""What `POST /v1/feedback` takes, and what it refuses."""

import json
from typing import Any

import pytest

from fedse_serve.asked import Refused
from fedse_serve.feedback import Given, parse_feedback
from fedse_serve.rows import FeedbackRow
from fedse_serve.settings import Metric

METRICS = {"solved": Metric(type="boolean"), "rating": Metric(type="float", at_least=4)}
SOLVED = {"metric_name": "solved", "value": True, "episode_id": "s1"}


def parsed(body: Any, **headers: str) -> Given:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return parse_feedback(json.dumps(body).encode(), named, METRICS, now=5.0)


def test_a_body_is_a_row() -> None:
    assert parsed(SOLVED) == (FeedbackRow("solved", True, 5.0, session="s1"), False)
    about_a_turn = {"metric_name": "rating", "value": 4, "inference_id": "i1", "tags": {"by": "x"}}
    row = FeedbackRow("rating", 4.0, 5.0, inference="i1", tags={"by": "x"}, key="k1")
    assert parsed(about_a_turn, idempotency_key="k1").row == row
    assert parsed({**SOLVED, "dryrun": True}).dry


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("comment", "late again"),
        ("demonstration", "the right answer"),
        ("demonstration", [{"type": "text", "text": "right"}]),
    ],
)
def test_comments_and_demonstrations_need_no_declaration(metric: str, value: object) -> None:
    assert parsed({**SOLVED, "metric_name": metric, "value": value}).row.value == value


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"metric_name": "sovled"}, "no metric 'sovled', did you mean 'solved'?"),
        ({"metric_name": None}, "metric_name must be the name of a metric, got None"),
        ({"value": 1}, "value must be true or false, because solved is boolean, got 1"),
        ({"metric_name": "rating"}, "value must be a number, because rating is float, got True"),
        ({"metric_name": "rating", "value": float("nan")}, "value must be a number"),
        ({"metric_name": "rating", "value": 10**400}, "value must be a number"),
        ({"metric_name": "comment"}, "value must be a text"),
        ({"metric_name": "demonstration", "value": ""}, "value must be the right answer"),
        ({"episode_id": None}, "exactly one of episode_id and inference_id"),
        ({"inference_id": "i1"}, "exactly one of episode_id and inference_id"),
        ({"episode_id": 7}, "episode_id must be a text of 1 to 200 characters, got 7"),
        ({"tags": ["x"]}, "tags must be an object of at most 32 texts"),
        ({"tags": {"by": 1}}, "tags.by must be a text of 1 to 200 characters, got 1"),
        ({"dryrun": "no"}, "dryrun must be true or false, got 'no'"),
        ({"metrics": 1}, "metrics is not a field, did you mean 'metric_name'?"),
    ],
)
def test_what_is_not_in_order_is_refused_by_name(change: dict[str, object], told: str) -> None:
    with pytest.raises(Refused) as refused:
        parsed({**SOLVED, **change})
    assert refused.value.status == 400
    assert told in str(refused.value)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'"x"', b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused, match="must be a JSON object"):
        parse_feedback(raw, {}, METRICS, now=5.0)
