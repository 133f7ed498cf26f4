"""OpenAI's Responses API, translated to and from a chat request.

FOLLOWED, IGNORED and UNKEPT are as in fedse_agents/chat.py. Items of the types message,
function_call, function_call_output and reasoning are accepted; reasoning is always empty here.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fedse_agents.answers import Answered
from fedse_agents.chat import ChatRequest, chat_request, require_kept
from fedse_agents.refused import RequestRefused, unsupported, wrong

FOLLOWED = frozenset(
    {
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "stream",
        "text",
        "tool_choice",
        "tools",
    }
)
IGNORED = frozenset(
    {
        "max_output_tokens",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "temperature",
        "top_p",
        "user",
    }
)
UNKEPT: Mapping[str, tuple[Any, ...]] = {
    "background": (False,),
    "context_management": ([],),
    "conversation": (),
    # There is no reasoning apart from the text, so there is none to include.
    "include": ([], ["reasoning.encrypted_content"]),
    "max_tool_calls": (),
    "prompt": (),
    "reasoning": ({}, {"effort": "none"}),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}
CHAT_NAMES = {
    "response_format.json_schema.schema": "text.format.schema",
    "response_format": "text.format",
    ".function.": ".",
}
"""The name of a chat parameter in this API."""

Messages = list[dict[str, Any]]
"""As in a chat request."""


class ResponseRequest(NamedTuple):
    """A request, and the messages that a later one may continue."""

    chat: ChatRequest
    messages: Messages
    given: dict[str, Any]


def parse_response_request(
    given: dict[str, Any], earlier: Mapping[str, Messages]
) -> ResponseRequest:
    """The request with these parameters; `earlier` has the messages up to each earlier response."""
    for name, value in given.items():
        require_kept(name, value, FOLLOWED | IGNORED, UNKEPT)
    before, instructions = given.get("previous_response_id"), given.get("instructions")
    if before is not None and (not isinstance(before, str) or before not in earlier):
        got = f"got {before!r:.60}"
        raise wrong("previous_response_id", f"names no response of this episode, {got}")
    messages = [*earlier.get(before or "", ()), *_messages(given.get("input"))]
    text = _text("instructions", instructions or "")
    system = [{"role": "system", "content": text}] if text else []
    tools = given.get("tools") or []
    chat = {
        "messages": [*system, *messages],
        "model": given.get("model") or "",
        "stream": given.get("stream"),
        "tools": [*map(_nested, tools)] if isinstance(tools, list) else tools,
        "tool_choice": _nested(given.get("tool_choice")),
        "parallel_tool_calls": given.get("parallel_tool_calls"),
        "response_format": _response_format(given.get("text")),
    }
    try:
        return ResponseRequest(chat_request(chat), messages, given)
    except RequestRefused as refusal:
        raise renamed(refusal) from None


def _messages(items: object) -> Messages:
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise wrong("input", f"must be a text or a list of items, got {type(items).__name__}")
    messages: Messages = []
    for number, item in enumerate(items):
        where = f"input[{number}]"
        fields = item if isinstance(item, dict) else {}
        kind = fields.get("type", "message")
        if kind == "message":
            content = _text(f"{where}.content", fields.get("content"))
            messages.append({"role": fields.get("role"), "content": content})
        elif kind == "function_call":
            function = {key: fields.get(key) for key in ("name", "arguments")}
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            messages[-1].setdefault("tool_calls", []).append({"function": function})
        elif kind == "function_call_output":
            output = _text(f"{where}.output", fields.get("output"))
            messages.append({"role": "tool", "content": output})
        elif kind != "reasoning":
            raise unsupported(f"{where}.type", f"is not supported here, got {kind!r:.60}")
    return messages


def _text(where: str, content: object) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise wrong(where, "must be text")
    return "".join(map(str, texts))


def _nested(value: object) -> object:
    """A tool, or the choice of one, as a chat request writes it."""
    if not isinstance(value, dict) or value.get("type") != "function":
        return value
    return {
        "type": "function",
        "function": {key: told for key, told in value.items() if key != "type"},
    }


def _response_format(text: object) -> object:
    form = text.get("format") if isinstance(text, dict) else None
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return form
    return {"type": "json_schema", "json_schema": form}


def renamed(refusal: RequestRefused) -> RequestRefused:
    """The same refusal with the names of this API."""
    param, message = refusal.param, str(refusal)
    for chat, here in CHAT_NAMES.items():
        param, message = param and param.replace(chat, here), message.replace(chat, here)
    return RequestRefused(refusal.status, refusal.code, message, param=param)


def after(asked: ResponseRequest, answer: Answered) -> Messages:
    """The messages that a request continues if it names this response."""
    calls = [{"function": call._asdict()} for call in answer.said.calls]
    said = {"role": "assistant", "content": answer.content, "tool_calls": calls}
    return [*asked.messages, said]


def response(asked: ResponseRequest, answer: Answered) -> dict[str, Any]:
    """The answer to a request without `stream`."""
    given, read, drawn = asked.given, answer.prompt_tokens, answer.completion_tokens
    return {
        "id": answer.id,
        "object": "response",
        "created_at": answer.created,
        "status": "incomplete" if answer.cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if answer.cut else None,
        "instructions": given.get("instructions"),
        "metadata": given.get("metadata") or {},
        "model": answer.model,
        "output": _output(answer),
        "parallel_tool_calls": asked.chat.offer.parallel,
        "previous_response_id": given.get("previous_response_id"),
        "temperature": None,
        "text": given.get("text") or {"format": {"type": "text"}},
        "tool_choice": given.get("tool_choice") or "auto",
        "tools": given.get("tools") or [],
        "top_p": None,
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": drawn,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + drawn,
        },
    }


def _output(answer: Answered) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.content:
        part = {"type": "output_text", "text": answer.content, "annotations": [], "logprobs": []}
        message: dict[str, Any] = {"id": f"msg_{answer.id}", "type": "message", "role": "assistant"}
        items.append(message | {"status": "completed", "content": [part]})
    for id, call in zip(answer.call_ids, answer.said.calls, strict=True):
        made = {"id": f"fc_{id}", "type": "function_call", "call_id": id, "status": "completed"}
        items.append(made | call._asdict())
    return items


def events(whole: dict[str, Any]) -> list[str]:
    """The response as server-sent events, in the order of OpenAI's."""
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    end = "response.completed" if whole["status"] == "completed" else "response.incomplete"
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(whole["output"]):
        told += ({**event, "output_index": index} for event in _item_events(item))
    told.append({"type": end, "response": whole})
    return [
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"
        for number, event in enumerate(told)
    ]


def _item_events(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
    added = {**item, "status": "in_progress", **empty}
    yield {"type": "response.output_item.added", "item": added}
    if item["type"] == "message":
        (part,) = item["content"]
        at = {"item_id": item["id"], "content_index": 0}
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        text = {"delta": part["text"], "logprobs": []}
        yield {"type": "response.output_text.delta", **at, **text}
        yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}
    else:
        at, arguments = {"item_id": item["id"]}, item["arguments"]
        yield {"type": "response.function_call_arguments.delta", **at, "delta": arguments}
        done = {"name": item["name"], "arguments": arguments}
        yield {"type": "response.function_call_arguments.done", **at, **done}
    yield {"type": "response.output_item.done", "item": item}
