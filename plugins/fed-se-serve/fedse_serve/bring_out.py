"""What is on record, for other tools: OpenTelemetry's GenAI attributes, and Langfuse's scores.

Everything is plain dictionaries, one per line of a file. Texts, which are redacted already, are
left out unless they are asked for: what was said, comments, corrections and tags. Token ids and
log-probabilities never leave the records, as no attribute is made for them.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fedse_serve.labels import deciding
from fedse_serve.rows import Conversation, StoredFeedback, StoredTurn
from fedse_serve.settings import ServiceSettings
from fedse_serve.trajectories import up_to

NANOSECONDS = 1_000_000_000
TRACE, SPAN = 32, 16
"""Hexadecimal digits of OpenTelemetry's ids."""
INTERNAL, CLIENT, FAILED = 1, 3, 2
"""OTLP's numbers for a span of a service itself, for one of a client, and for a status of error."""
REQUEST = ("temperature", "top_p", "top_k", "max_tokens", "presence_penalty", "frequency_penalty")
EVENT = "gen_ai.evaluation.result"


def spans_of(told: Conversation, settings: ServiceSettings, *, texts: bool) -> list[dict[str, Any]]:
    """The session as a span in OTLP's JSON, and each of its turns as one below it.

    What was reported about it is an event of the span that it is about.
    """
    own = told.session
    events: dict[str | None, list[dict[str, Any]]] = {}
    for one in told.feedback:
        if texts or _is_number(one.value):
            event = evaluation_of(one, success=_meaning(one, settings))
            events.setdefault(one.inference, []).append(event)
    made = [{**_session_span(told), "events": events.get(None, [])}]
    for turn in told.turns:
        shown = up_to(told.turns, turn.number)[:-1] if texts else None
        span = span_of(turn, application=own.application, shown=shown)
        made.append({**span, "events": events.get(turn.inference, [])})
    return made


def _session_span(told: Conversation) -> dict[str, Any]:
    own = told.session
    ends = [turn.at + turn.guards.seconds for turn in told.turns]
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        **_common(own.session, own.application, own.adapter),
        "fedse.arm": own.arm,
    }
    return {
        "traceId": trace_id(own.session),
        "spanId": session_span_id(own.session),
        "name": f"invoke_agent {own.application}",
        "kind": INTERNAL,
        "startTimeUnixNano": _time(own.first),
        "endTimeUnixNano": _time(max([own.ended or own.last, *ends])),
        "attributes": _listed(attributes),
    }


def span_of(
    turn: StoredTurn, *, application: str, shown: Sequence[StoredTurn] | None
) -> dict[str, Any]:
    """One turn as a span; `shown` = the turns that its prompt continues, None = without texts."""
    attributes = attributes_of(turn, application=application)
    if shown is not None and (turn.observation or turn.reply):
        asked = [one for before in shown for one in _exchange(before)]
        *new, said = _exchange(turn)
        attributes["gen_ai.input.messages"] = _as_text([*asked, *new])
        attributes["gen_ai.output.messages"] = _as_text([{**said, "finish_reason": turn.finish}])
    return {
        "traceId": trace_id(turn.session),
        "spanId": span_id(turn.inference),
        "parentSpanId": session_span_id(turn.session),
        "name": f"chat {turn.adapter}",
        "kind": CLIENT,
        "startTimeUnixNano": _time(turn.at),
        "endTimeUnixNano": _time(turn.at + turn.guards.seconds),
        "attributes": _listed(attributes),
        "status": {"code": FAILED, "message": turn.guards.error} if turn.guards.error else {},
    }


def attributes_of(turn: StoredTurn, *, application: str) -> dict[str, Any]:
    """The GenAI attributes of a turn, without texts."""
    made: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        **_common(turn.session, application, turn.adapter),
        "gen_ai.response.model": turn.adapter,
        "gen_ai.response.id": turn.inference,
        "gen_ai.response.finish_reasons": [turn.finish],
        "gen_ai.usage.input_tokens": turn.prompt_tokens,
        "gen_ai.usage.output_tokens": turn.sampled_tokens,
        "fedse.arm": turn.arm,
    }
    for name in REQUEST:
        if _is_number(value := turn.sampling.get(name)):
            made[f"gen_ai.request.{name}"] = value
    if turn.guards.error:
        made["error.type"] = turn.guards.error
    return made


def _common(session: str, application: str, adapter: str) -> dict[str, Any]:
    return {
        "gen_ai.provider.name": "fedse",
        "gen_ai.conversation.id": session,
        "session.id": session,
        "gen_ai.agent.name": application,
        "gen_ai.agent.version": adapter,
        "gen_ai.request.model": adapter,
    }


def request_of(spans: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Spans, each with its application, as one request of OTLP's JSON, or a line of a file."""
    by_application: dict[str, list[Mapping[str, Any]]] = {}
    for application, span in spans:
        by_application.setdefault(application, []).append(span)
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _listed({"service.name": application})},
                "scopeSpans": [{"scope": {"name": "fedse_serve"}, "spans": own}],
            }
            for application, own in by_application.items()
        ]
    }


def evaluation_of(feedback: StoredFeedback, *, success: bool | None = None) -> dict[str, Any]:
    """One value as the event `gen_ai.evaluation.result`; `success` = what it means, if anything."""
    made: dict[str, Any] = {"gen_ai.evaluation.name": feedback.metric}
    value = feedback.value
    if isinstance(value, bool | int | float):
        made["gen_ai.evaluation.score.value"] = float(value)
    else:
        made["gen_ai.evaluation.explanation"] = _as_text(value)
    if success is not None:
        made["gen_ai.evaluation.score.label"] = "pass" if success else "fail"
    if feedback.inference is not None:
        made["gen_ai.response.id"] = feedback.inference
    return {"timeUnixNano": _time(feedback.at), "name": EVENT, "attributes": _listed(made)}


def _meaning(feedback: StoredFeedback, settings: ServiceSettings) -> bool | None:
    """Whether a value is a success; None = it does not say."""
    metric, value = deciding(settings).get(feedback.metric), feedback.value
    if metric is None or not isinstance(value, bool | int | float):
        return None
    return metric.judged(value)


def scores_of(told: Conversation, *, texts: bool) -> Iterator[dict[str, Any]]:
    """What was reported about a session, as Langfuse's scores."""
    for one in told.feedback:
        if texts or _is_number(one.value):
            made = score_of(one)
            yield made if texts else {**made, "metadata": {}}


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


def trace_id(session: str) -> str:
    """The same for the same session."""
    return _hashed(session)[:TRACE]


def session_span_id(session: str) -> str:
    """That of the span that stands for the whole session."""
    return _hashed(session)[TRACE : TRACE + SPAN]


def span_id(inference: str) -> str:
    """The same for the same turn."""
    return _hashed(inference)[:SPAN]


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _exchange(turn: StoredTurn) -> list[dict[str, Any]]:
    said = (("user", turn.observation), ("assistant", turn.reply))
    return [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _time(seconds: float) -> str:
    return str(int(seconds * NANOSECONDS))


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
            return {"arrayValue": {"values": [*map(_value, value)]}}
        case _:
            return {"stringValue": str(value)}
