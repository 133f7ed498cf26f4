"""The OpenAI chat format: a request's bytes -> a conversation, a reply -> a response's JSON.

FOLLOWED lists the parameters that do what they say. Those in IGNORED may be given and change
nothing: how the model samples belongs to the experiment, and there is no store, user or price
here. Every other parameter would change the answer, so it is refused by name; those in UNKEPT are
taken with the values that ask for nothing.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedse.agent.policy import Reply

ROLES = ("system", "developer", "user", "tool", "function", "assistant")
FOLLOWED = frozenset({"messages", "model", "stream", "stream_options"})
IGNORED = frozenset(
    {
        # How to sample: rollout.temperature, rollout.new_tokens and run.seed say it.
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "seed",
        # Speed, price, storage and bookkeeping of a hosted service.
        "prediction",
        "service_tier",
        "store",
        "metadata",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        # Says something only where there are tools, which are refused.
        "parallel_tool_calls",
    }
)
# Parameters we cannot keep, with the values that ask for nothing; null never does.
UNKEPT: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "stop": ([], ""),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
}


class RequestRefused(Exception):
    """A request that cannot be answered: an HTTP status and an error in OpenAI's form."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def as_json(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "code": self.code, "param": self.param}
        return {"error": error}


class ShownAndAnswered(NamedTuple):
    """What was shown and what the assistant answered to it, blanks at both ends aside."""

    shown: str
    answered: str


class Conversation(NamedTuple):
    """The conversation so far, as the program gives it, and what it now wants an answer to."""

    system: str
    past: tuple[ShownAndAnswered, ...]
    shown: str


class ChatRequest(NamedTuple):
    conversation: Conversation
    model: str
    stream: bool
    usage_in_stream: bool


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; an empty body is an empty object."""
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, "not_json", f"the body must be JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestRefused(
            400, "not_an_object", f"expected a JSON object, got {type(value).__name__}"
        )
    return value


def parse_request(body: bytes) -> ChatRequest:
    """The request in `body`, or RequestRefused with the reason."""
    given = json_object(body)
    for name, value in given.items():
        _require_kept(name, value)
    options = given.get("stream_options")
    return ChatRequest(
        conversation=_conversation(given.get("messages")),
        model=str(given.get("model", "")),
        stream=given.get("stream") is True,
        usage_in_stream=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _require_kept(name: str, value: object) -> None:
    """Leaving the parameter aside cannot change what the answer means."""
    if name in FOLLOWED or name in IGNORED or value is None or value in UNKEPT.get(name, ()):
        return
    kept = " or ".join(map(json.dumps, UNKEPT.get(name, ())))
    only = f" but for {kept}" if kept else ""
    raise RequestRefused(
        400,
        "unsupported",
        f"{name} is not supported here{only}, got {json.dumps(value)[:60]}; leave it out",
        param=name,
    )


def _conversation(messages: object) -> Conversation:
    """Leading system messages are the system; all others between two answers are one text."""
    if not isinstance(messages, list) or not messages:
        raise RequestRefused(
            400, "no_messages", "messages must be a list with at least one message"
        )
    system: list[str] = []
    shown: list[str] = []
    past: list[ShownAndAnswered] = []
    for number, message in enumerate(messages):
        role, text = _message(number, message)
        if role == "assistant":
            past.append(ShownAndAnswered("\n\n".join(shown), text.strip()))
            shown = []
        elif role in ("system", "developer") and not shown and not past:
            system.append(text)
        else:
            shown.append(text)
    if not shown:
        raise RequestRefused(
            400, "nothing_asked", "the last message must be the user's or a tool's"
        )
    return Conversation("\n\n".join(system), tuple(past), "\n\n".join(shown))


def _message(number: int, message: object) -> tuple[str, str]:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise RequestRefused(
            400, "bad_message", f"messages[{number}] must have a role of {', '.join(ROLES)}"
        )
    if message.get("tool_calls"):
        raise RequestRefused(
            400, "unsupported", f"messages[{number}]: tool_calls are not supported here"
        )
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise RequestRefused(400, "bad_message", f"messages[{number}].content must be text")
    return message["role"], "".join(map(str, texts))


class Answered(NamedTuple):
    """A reply with all a response says about it."""

    reply: Reply
    model: str
    id: str
    created: int
    """Seconds since 1970."""
    prompt_tokens: int
    cut: bool
    """The answer ended at the token limit, not by itself."""


def completion(answer: Answered) -> dict[str, Any]:
    """The response to a request without `stream`."""
    message = {"role": "assistant", "content": answer.reply.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
    return _envelope(answer, "chat.completion", [choice]) | {"usage": _usage(answer)}


def chunks(answer: Answered, *, usage: bool) -> list[str]:
    """The same as server-sent events: who speaks, the text, the end."""
    deltas: list[tuple[dict[str, str], str | None]] = [
        ({"role": "assistant", "content": ""}, None),
        ({"content": answer.reply.text}, None),
        ({}, _reason(answer)),
    ]
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


def _envelope(answer: Answered, kind: str, choices: list[Any]) -> dict[str, Any]:
    made = {"id": answer.id, "object": kind, "created": answer.created, "model": answer.model}
    return made | {"choices": choices}


def _reason(answer: Answered) -> str:
    return "length" if answer.cut else "stop"


def _usage(answer: Answered) -> dict[str, int]:
    completion_tokens = len(answer.reply.action_ids)
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": answer.prompt_tokens + completion_tokens,
    }
