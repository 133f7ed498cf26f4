"""What is on record, for other tools: OpenTelemetry's GenAI attributes, and Langfuse's scores.

Everything is plain dictionaries, one per line of a file. Texts, which are redacted already, are
left out unless they are asked for; token ids and log-probabilities never leave the records, as no
attribute is made for them.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedse.store.files import OWNER_ONLY, write_durably
from fedse_serve.rows import StoredFeedback, StoredTurn

NANOSECONDS = 1_000_000_000
TRACE, SPAN = 32, 16
"""Hexadecimal digits of OpenTelemetry's ids."""
CLIENT, FAILED = 3, 2
"""OTLP's numbers for a span of a client, and for a status of error."""
REQUEST = ("temperature", "top_p", "top_k", "max_tokens", "presence_penalty", "frequency_penalty")
EVENT = "gen_ai.evaluation.result"


def span_of(turn: StoredTurn, *, application: str, texts: bool = False) -> dict[str, Any]:
    """One turn as a span in OTLP's JSON."""
    start = int(turn.at * NANOSECONDS)
    return {
        "traceId": trace_id(turn.session),
        "spanId": span_id(turn.inference),
        "name": f"chat {turn.adapter}",
        "kind": CLIENT,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + int(turn.guards.seconds * NANOSECONDS)),
        "attributes": _listed(attributes_of(turn, application=application, texts=texts)),
        "status": {"code": FAILED, "message": turn.guards.error} if turn.guards.error else {},
    }


def attributes_of(turn: StoredTurn, *, application: str, texts: bool = False) -> dict[str, Any]:
    """The GenAI attributes of a turn."""
    made: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "fedse",
        "gen_ai.conversation.id": turn.session,
        "gen_ai.agent.name": application,
        "gen_ai.agent.version": turn.adapter,
        "gen_ai.request.model": turn.adapter,
        "gen_ai.response.model": turn.adapter,
        "gen_ai.response.id": turn.inference,
        "gen_ai.response.finish_reasons": [turn.finish],
        "gen_ai.usage.input_tokens": turn.prompt_tokens,
        "gen_ai.usage.output_tokens": turn.sampled_tokens,
        "fedse.arm": turn.arm,
    }
    for name in REQUEST:
        if name in turn.sampling:
            made[f"gen_ai.request.{name}"] = turn.sampling[name]
    if turn.guards.error:
        made["error.type"] = turn.guards.error
    if texts and (turn.observation or turn.reply):
        made["gen_ai.input.messages"] = _message("user", turn.observation)
        made["gen_ai.output.messages"] = _message("assistant", turn.reply, finish=turn.finish)
    return made


def export_spans(
    turns: Iterable[StoredTurn], *, application: str, texts: bool = False
) -> dict[str, Any]:
    """Turns as one request of OTLP's JSON, which a collector reads as a line of a file."""
    spans = [span_of(turn, application=application, texts=texts) for turn in turns]
    resource = {"attributes": _listed({"service.name": application})}
    scopes = [{"scope": {"name": "fedse_serve"}, "spans": spans}]
    return {"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}


def evaluation_of(feedback: StoredFeedback, *, success: bool | None = None) -> dict[str, Any]:
    """One value as the event `gen_ai.evaluation.result`; `success` = what it means, if anything."""
    made: dict[str, Any] = {
        "gen_ai.evaluation.name": feedback.metric,
        "gen_ai.conversation.id": feedback.session,
    }
    value = feedback.value
    if isinstance(value, bool | int | float):
        made["gen_ai.evaluation.score.value"] = float(value)
    else:
        made["gen_ai.evaluation.explanation"] = _as_text(value)
    if success is not None:
        made["gen_ai.evaluation.score.label"] = "pass" if success else "fail"
    if feedback.inference is not None:
        made["gen_ai.response.id"] = feedback.inference
    time, trace = str(int(feedback.at * NANOSECONDS)), trace_id(feedback.session)
    span = {"spanId": span_id(feedback.inference)} if feedback.inference else {}
    log = {"timeUnixNano": time, "eventName": EVENT, "traceId": trace, **span}
    return {**log, "attributes": _listed(made)}


def score_of(feedback: StoredFeedback) -> dict[str, Any]:
    """One value as the body of Langfuse's `POST /api/public/scores`; its id makes it idempotent."""
    value, kind = feedback.value, "NUMERIC"
    if isinstance(value, bool):
        value, kind = int(value), "BOOLEAN"
    elif not isinstance(value, int | float):
        kind = "CORRECTION" if feedback.metric == "demonstration" else "TEXT"
        value = _as_text(value)
    about = {"sessionId": feedback.session}
    if feedback.inference is not None:
        spans = span_id(feedback.inference)
        about = {"traceId": trace_id(feedback.session), "observationId": spans}
    own = {"id": feedback.id, "name": feedback.metric, "value": value, "dataType": kind}
    return {**own, **about, "metadata": dict(feedback.tags)}


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> int:
    """`path`, which only its owner can read, has one line of JSON for each; how many."""
    texts = [json.dumps(line, ensure_ascii=False) for line in lines]
    data = "".join(f"{text}\n" for text in texts).encode("utf-8", "backslashreplace")
    write_durably(path, data, mode=OWNER_ONLY)
    return len(texts)


def trace_id(session: str) -> str:
    """The same for the same session."""
    return _hashed(session)[:TRACE]


def span_id(inference: str) -> str:
    """The same for the same turn."""
    return _hashed(inference)[:SPAN]


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _message(role: str, text: str, **more: str) -> str:
    own = [{"role": role, "parts": [{"type": "text", "content": text}]}]
    if "finish" in more:
        own[0]["finish_reason"] = more["finish"]
    return json.dumps(own, ensure_ascii=False)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _listed(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As OTLP's JSON writes them."""
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}  # as 64 bits do not fit into a number of JSON
        case float():
            return {"doubleValue": value}
        case list() | tuple():
            return {"arrayValue": {"values": [*_values(value)]}}
        case _:
            return {"stringValue": str(value)}


def _values(values: Sequence[Any]) -> Iterator[dict[str, Any]]:
    return map(_value, values)
