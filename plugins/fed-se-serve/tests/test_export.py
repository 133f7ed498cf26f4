"""Records for other tools: what leaves, what does not, and that the other side can read it."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from scene_records import (
    ENCODER,
    END,
    NOON,
    PLAIN,
    conversation,
    names_redactor,
    new,
    opened,
    text,
    turn,
)

from tests.needs import needs

needs("aiohttp", "opentelemetry", "opentelemetry.proto")

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from fedse.errors import ConfigError, RunError
from fedse_serve import sending
from fedse_serve.bring_in import import_logs
from fedse_serve.bring_out import evaluation_of, score_of, session_span_id, span_id, trace_id
from fedse_serve.exporting import Form, export_records
from fedse_serve.forgetting import withdraw
from fedse_serve.records import Records
from fedse_serve.rows import FeedbackRow, Guards, StoredFeedback
from fedse_serve.sending import batches, headers_in, write_lines
from fedse_serve.settings import Metric, ServiceSettings

SETTINGS = ServiceSettings(metrics={"solved": Metric(type="boolean")})


def filled(folder: Path) -> Records:
    """A session of two turns that says what is private, with feedback of every kind."""
    redact = names_redactor(folder / "lists", "Ann Lee")
    records = opened(folder, redact=redact)
    records.begin_all([new(person="customer-17"), new("s2")])
    first, second = conversation(("planted, I am Ann Lee", "hi"), ("planted too", "planted reply"))
    records.add_turns([first, second])
    sampling = {"temperature": 0.5, "seed": 3, "top_p": "planted"}
    guards = Guards(error="engine", seconds=1.5)
    records.add_turns([turn(3, "<user>a", "b", session="s2", sampling=sampling, guards=guards)])
    records.add_feedback(
        [
            FeedbackRow("solved", True, NOON + 9, session="s1", tags={"by": "planted"}),
            FeedbackRow("rating", 4.5, NOON + 9, inference="i2"),
            FeedbackRow("comment", "planted comment of Ann Lee", NOON + 9, session="s1"),
            FeedbackRow("demonstration", [{"text": "planted"}], NOON + 9, inference="i1"),
        ]
    )
    return records


def exported(
    records: Records, out: str, form: Form = "otel", *, texts: bool = False, **environ: str
) -> str:
    given = {"out": out, "form": form, "texts": texts, "environ": environ}
    return export_records(records, SETTINGS, **given)


def lines_of(
    records: Records, file: Path, form: Form = "otel", *, texts: bool = False
) -> list[Any]:
    exported(records, str(file), form, texts=texts)
    return [json.loads(line) for line in file.read_text().split("\n") if line]


def parsed(request: dict[str, Any]) -> ExportTraceServiceRequest:
    """As OpenTelemetry's own classes read it; OTLP/JSON has ids in hexadecimal, theirs base64."""

    def as_theirs(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: as_theirs(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [as_theirs(one) for one in value]
        if key in ("traceId", "spanId", "parentSpanId"):
            return b64encode(bytes.fromhex(value)).decode()
        return value

    return ParseDict(as_theirs(request), ExportTraceServiceRequest())


def spans_in(read: ExportTraceServiceRequest) -> list[Any]:
    return [s for one in read.resource_spans for scope in one.scope_spans for s in scope.spans]


def values(pairs: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in pairs}


@pytest.mark.parametrize("texts", [False, True])
def test_opentelemetrys_own_classes_read_every_line(tmp_path: Path, texts: bool) -> None:
    (line,) = lines_of(filled(tmp_path), tmp_path / "spans.jsonl", texts=texts)
    read = parsed(line)
    assert values(read.resource_spans[0].resource.attributes) == {"service.name": "shop"}
    session, first, second, other, failed = spans_in(read)
    assert (session.name, first.name) == ("invoke_agent shop", f"chat {PLAIN}")
    assert session.trace_id.hex() == first.trace_id.hex() == trace_id("s1")
    assert {first.parent_span_id, second.parent_span_id} == {session.span_id}
    assert (session.span_id.hex(), session.parent_span_id) == (session_span_id("s1"), b"")
    assert second.span_id.hex() == span_id("i2")
    assert session.start_time_unix_nano <= first.start_time_unix_nano
    assert session.end_time_unix_nano >= second.end_time_unix_nano
    given = values(first.attributes)
    assert given["gen_ai.conversation.id"] == given["session.id"] == "s1"
    assert (given["gen_ai.operation.name"], given["gen_ai.agent.version"]) == ("chat", PLAIN)
    assert given["gen_ai.usage.output_tokens"] == 3
    assert [one.string_value for one in given["gen_ai.response.finish_reasons"].values] == ["stop"]
    assert other.trace_id != session.trace_id
    assert (failed.status.code, failed.status.message) == (2, "engine")
    assert failed.end_time_unix_nano - failed.start_time_unix_nano == 1_500_000_000
    asked = {k: v for k, v in values(failed.attributes).items() if ".request." in k}
    assert asked == {"gen_ai.request.model": PLAIN, "gen_ai.request.temperature": 0.5}


def test_feedback_is_events_of_the_span_that_it_is_about(tmp_path: Path) -> None:
    records = filled(tmp_path)
    told: dict[bool, list[list[dict[str, Any]]]] = {}
    for texts in (False, True):
        (line,) = lines_of(records, tmp_path / "spans.jsonl", texts=texts)
        session, first, second, *_ = spans_in(parsed(line))
        events = [span.events for span in (session, first, second)]
        assert {one.name for each in events for one in each} == {"gen_ai.evaluation.result"}
        told[texts] = [[values(one.attributes) for one in each] for each in events]
    name, score = "gen_ai.evaluation.name", "gen_ai.evaluation.score.value"
    solved = {name: "solved", score: 1.0, "gen_ai.evaluation.score.label": "pass"}
    rated = {name: "rating", score: 4.5, "gen_ai.response.id": "i2"}
    assert told[False] == [[solved], [], [rated]]
    assert [[one[name] for one in each] for each in told[True]] == [
        ["solved", "comment"],
        ["demonstration"],
        ["rating"],
    ]


@pytest.mark.parametrize("form", ["otel", "langfuse"])
def test_without_texts_no_text_leaves_and_with_them_what_is_private_does_not(
    tmp_path: Path, form: Form
) -> None:
    records, file = filled(tmp_path), tmp_path / "out.jsonl"
    lines_of(records, file, form)
    assert "planted" not in file.read_text()
    lines_of(records, file, form, texts=True)
    assert "planted" in file.read_text()
    assert "Ann Lee" not in file.read_text()
    assert "customer-17" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_of_a_session_whose_consent_was_taken_back_only_counts_leave(tmp_path: Path) -> None:
    records = filled(tmp_path)
    withdraw(records, "s1")
    (line,) = lines_of(records, tmp_path / "out.jsonl", texts=True)
    assert "gen_ai.input.messages" not in {
        key for span in spans_in(parsed(line))[:3] for key in values(span.attributes)
    }


def test_what_is_brought_out_with_texts_can_be_brought_in_whole(tmp_path: Path) -> None:
    records = opened(tmp_path)
    records.begin_all([new()])
    records.add_turns(conversation(("hello", "hi"), ("and\u2028now?", "nothing")))
    file = tmp_path / "spans.jsonl"
    exported(records, str(file), texts=True)
    (episode,), refused = import_logs(file.read_text().split("\n"), ENCODER)
    assert refused == ()
    assert text(episode.token_ids) == (
        f"<user>hello{END}<assistant>hi{END}<user>and\u2028now?{END}<assistant>nothing{END}"
    )


class Collector:
    """What a collector was sent, and what it answers: the first of `answers` first."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.answers: list[tuple[int, str]] = []


@contextmanager
def collecting(collector: Collector) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): one for name, one in self.headers.items()}
            collector.requests.append((self.path, headers, json.loads(body)))
            status, said = collector.answers.pop(0) if collector.answers else (200, "{}")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *given: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces"
        finally:
            server.shutdown()
            thread.join()


def test_a_collector_gets_the_same_spans_in_bounded_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MOST_SPANS", 2)
    records, collector = filled(tmp_path), Collector()
    lines = lines_of(records, tmp_path / "spans.jsonl", texts=True)
    assert [len(spans_in(parsed(line))) for line in lines] == [2, 2, 1]
    key = {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20a+/b==, x-other=1%2C2"}
    with collecting(collector) as url:
        assert exported(records, url, texts=True, **key) == "5 spans sent"
    assert [body for *_, body in collector.requests] == lines
    path, headers, _ = collector.requests[0]
    assert (path, headers["content-type"]) == ("/v1/traces", "application/json")
    assert (headers["authorization"], headers["x-other"]) == ("Basic a+/b==", "1,2")


def test_a_long_span_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST_BYTES", 40)
    spans = [("a", {"name": "x" * length}) for length in (5, 5, 100, 5)]
    sizes = [
        [len(s["name"]) for s in one["resourceSpans"][0]["scopeSpans"][0]["spans"]]
        for one in batches(spans)
    ]
    assert sizes == [[5, 5], [100], [5]]


def test_a_collector_that_is_busy_is_sent_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "LONGEST_PAUSE", 0.01)
    records, collector = filled(tmp_path), Collector()
    collector.answers = [(503, ""), (429, "")]
    with collecting(collector) as url:
        assert exported(records, url) == "5 spans sent"
        assert len({json.dumps(body) for *_, body in collector.requests}) == 1
        assert len(collector.requests) == 3
        collector.answers = [(503, "")] * sending.ATTEMPTS
        with pytest.raises(RunError, match="status 503; 0 were sent before"):
            exported(records, url)


def test_what_a_collector_refuses_is_told(tmp_path: Path) -> None:
    records, collector = filled(tmp_path), Collector()
    partial = {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}
    collector.answers = [(200, json.dumps(partial)), (404, "no such page")]
    with collecting(collector) as url:
        with pytest.raises(RunError, match="took 3 of 5 spans, and refused the others: too old"):
            exported(records, url)
        with pytest.raises(RunError, match="status 404, 'no such page'") as told:
            exported(records, url.replace("//", "//user:word@").replace("/v1/traces", "/"))
    assert url in told.value.hint
    assert "word" not in f"{told.value} {told.value.hint}"


def test_scores_are_written_to_a_file(tmp_path: Path) -> None:
    records = filled(tmp_path)
    with pytest.raises(ConfigError, match="--out is an address"):
        exported(records, "http://127.0.0.1:1/v1/traces", "langfuse")
    kept = lines_of(records, tmp_path / "scores.jsonl", "langfuse")
    assert [(one["name"], one["value"], one["metadata"]) for one in kept] == [
        ("solved", 1, {}),
        ("rating", 4.5, {}),
    ]
    assert len(lines_of(records, tmp_path / "scores.jsonl", "langfuse", texts=True)) == 4


def test_headers_that_cannot_be_read_are_named() -> None:
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_HEADERS must be") as told:
        headers_in({"OTEL_EXPORTER_OTLP_HEADERS": "a=1,secret"})
    assert "secret" not in str(told.value)


def feedback(metric: str, value: Any, inference: str | None = None) -> StoredFeedback:
    return StoredFeedback("f1", "s1", inference, metric, value, NOON, {"by": "thumb"})


def test_a_comment_is_the_explanation_of_an_evaluation() -> None:
    comment = evaluation_of(feedback("comment", "late"))
    words = {"key": "gen_ai.evaluation.explanation", "value": {"stringValue": "late"}}
    assert words in comment["attributes"]


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("solved", True, (1, "BOOLEAN")),
        ("rating", 4.5, (4.5, "NUMERIC")),
        ("comment", "late", ("late", "TEXT")),
        ("demonstration", [{"text": "x"}], ('[{"text": "x"}]', "CORRECTION")),
    ],
)
def test_feedback_is_a_score(metric: str, value: Any, expected: tuple[Any, str]) -> None:
    made = score_of(feedback(metric, value))
    assert (made["value"], made["dataType"]) == expected
    assert (made["id"], made["sessionId"], made["metadata"]) == ("f1", "s1", {"by": "thumb"})
    about_a_turn = score_of(feedback(metric, value, "i1"))
    assert about_a_turn["traceId"] == trace_id("s1")
    assert "sessionId" not in about_a_turn


def test_lines_are_for_the_owner_only_and_always_utf_8(tmp_path: Path) -> None:
    assert write_lines(tmp_path / "scores.jsonl", [{"a": 1}, {"b": "ü\ud800"}]) == 2
    assert (tmp_path / "scores.jsonl").read_text() == '{"a": 1}\n{"b": "ü?"}\n'
    assert (tmp_path / "scores.jsonl").stat().st_mode & 0o777 == 0o600
