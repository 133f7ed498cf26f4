"""A reply -> the JSON of a chat completion, whole or as server-sent events."""

import json
from typing import Any, NamedTuple

from fedse.agent.calls import Said
from fedse.agent.policy import Reply


class Answered(NamedTuple):
    """A reply and everything a response contains."""

    reply: Reply
    said: Said
    """The reply, as text and calls."""
    call_ids: tuple[str, ...]
    """One per call."""
    model: str
    id: str
    created: int
    """Seconds since 1970."""
    prompt_tokens: int
    cut: bool
    """The answer was cut off at the token limit."""

    @property
    def content(self) -> str | None:
        """The text: verbatim if there is no call, None if there are only calls."""
        return (self.said.text or None) if self.said.calls else self.reply.text

    @property
    def completion_tokens(self) -> int:
        return len(self.reply.action_ids)


def completion(answer: Answered) -> dict[str, Any]:
    """The response to a request without `stream`."""
    calls = _calls(answer)
    message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
    return _envelope(answer, "chat.completion", [choice]) | {"usage": _usage(answer)}


def chunks(answer: Answered, *, usage: bool) -> list[str]:
    """The same as server-sent events: role, text, each call, end."""
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    if answer.content:
        deltas.append(({"content": answer.content}, None))
    for index, call in enumerate(_calls(answer)):
        function = call["function"]
        named = {**call, "function": {**function, "arguments": ""}}
        deltas.append(({"tool_calls": [{"index": index, **named}]}, None))
        arguments = {"index": index, "function": {"arguments": function["arguments"]}}
        deltas.append(({"tool_calls": [arguments]}, None))
    deltas.append(({}, _reason(answer)))
    bodies = [
        _envelope(
            answer,
            "chat.completion.chunk",
            [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
        )
        for delta, reason in deltas
    ]
    if usage:
        bodies.append(_envelope(answer, "chat.completion.chunk", []) | {"usage": _usage(answer)})
    return [f"data: {json.dumps(body)}\n\n" for body in bodies] + ["data: [DONE]\n\n"]


def _calls(answer: Answered) -> list[dict[str, Any]]:
    return [
        {"id": id, "type": "function", "function": call._asdict()}
        for id, call in zip(answer.call_ids, answer.said.calls, strict=True)
    ]


def _envelope(answer: Answered, kind: str, choices: list[Any]) -> dict[str, Any]:
    made = {"id": answer.id, "object": kind, "created": answer.created, "model": answer.model}
    return made | {"choices": choices}


def _reason(answer: Answered) -> str:
    if answer.cut:
        return "length"
    return "tool_calls" if answer.said.calls else "stop"


def _usage(answer: Answered) -> dict[str, int]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }
