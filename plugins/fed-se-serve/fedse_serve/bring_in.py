"""Conversations that were recorded elsewhere, as demonstrations.

They come as lines of OpenAI's chat format (`{"messages": [...], "tools": [...]}`), or as spans with
OpenTelemetry's GenAI attributes, in OTLP's JSON or flat. Such logs have no token ids: the texts are
tokenised here, so what is learned may differ from what was sampled then. Nor do they say how a
conversation ended: whoever imports them vouches that they are worth imitating.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedse.agent.calls import Said, made_call, returned, tools_prompt
from fedse.agent.policy import Dialogue, Message
from fedse.agent.prompt import Encoder
from fedse.errors import ConfigError, StoreError, boundary
from fedse.types import Task, Trajectory, Turn, digest_of
from fedse_serve.trajectories import NAME

IMPORTED = "imported"
"""In place of an adapter's digest."""
MESSAGES = ("gen_ai.input.messages", "gen_ai.output.messages")
SYSTEM, TOOL = ("system", "developer"), ("tool", "function")


class Imported(NamedTuple):
    episodes: tuple[Trajectory, ...]
    """Without a token that was sampled."""
    refused: tuple[str, ...]
    """What was left out: the number of the line, and why."""


class Chat(NamedTuple):
    """One conversation in OpenAI's format."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[dict[str, Any]] = ()


def import_logs(lines: Sequence[str], encoder: Encoder) -> Imported:
    """The demonstrations in a file: of spans if a line is OTLP's JSON, else of chats."""
    bring_in = import_spans if any(map(_is_otlp, lines)) else import_chats
    return bring_in(lines, encoder)


def import_chats(lines: Iterable[str], encoder: Encoder) -> Imported:
    """One demonstration per line in OpenAI's chat format; equal ones are one."""
    made: list[Trajectory] = []
    refused: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                given = _object(json.loads(line))
                chat = Chat(given["messages"], given.get("tools") or ())
                made.append(demonstration(chat, encoder))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                refused.append(f"line {number}: {_reason(error)}")
    return Imported(_different(made), tuple(refused))


def import_spans(lines: Iterable[str], encoder: Encoder) -> Imported:
    """One demonstration per conversation in the spans: that of its last span, which has it all.

    A span without `gen_ai.conversation.id` is a conversation of its own; a conversation without
    messages, because texts were not captured, is left out. Spans of other kinds are passed over.
    """
    last: dict[str, tuple[tuple[bool, int], int, Mapping[str, Any]]] = {}
    refused: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            for place, (started, attributes) in enumerate(_spans(_object(json.loads(line)))):
                own = str(attributes.get("gen_ai.conversation.id") or f"line {number}.{place}")
                rank = (all(map(attributes.get, MESSAGES)), started)
                if own not in last or last[own][0] <= rank:
                    last[own] = (rank, number, attributes)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            refused.append(f"line {number}: {_reason(error)}")
    made: list[Trajectory] = []
    for _, number, attributes in last.values():
        try:
            made.append(demonstration(_chat_of(attributes), encoder))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            refused.append(f"line {number}: {_reason(error)}")
    return Imported(_different(made), tuple(refused))


def demonstration(chat: Chat, encoder: Encoder) -> Trajectory:
    """The conversation up to its last answer, tokenised by the model's own template."""
    system, turns, shown = list[str](), list[Turn](), list[Message]()
    for message in chat.messages:
        role, text = message["role"], _text(message.get("content"))
        if role == "assistant":
            said = Said(
                text.strip(), tuple(_call(call) for call in message.get("tool_calls") or ())
            )
            turns.append(_turn("\n\n".join(system), turns, shown, said, chat.tools, encoder))
            shown = []
        elif role in SYSTEM and not turns and not shown:
            system.append(text)
        else:
            shown.append(Message("tool" if role in TOOL else "user", text))
    if not turns:
        raise ValueError("expected at least one answer of the assistant, got none")
    identity = digest_of([system, list(chat.tools), [(t.observation, t.action) for t in turns]])
    return Trajectory(
        task=Task(env=NAME, id=f"{IMPORTED}-{identity[:32]}", split="train"),
        seed=0,
        turns=tuple(turns),
        outcome="success",
        reward=1.0,
        policy=IMPORTED,
        round=0,
    )


def _turn(
    system: str,
    turns: Sequence[Turn],
    shown: Sequence[Message],
    said: Said,
    tools: Sequence[dict[str, Any]],
    encoder: Encoder,
) -> Turn:
    marked = [returned(text) if tools and role == "tool" else text for role, text in shown]
    text, own = "\n\n".join(marked), bool(tools) and encoder.template_has_tools
    if tools and not own:
        system = "\n\n".join(filter(None, [system, tools_prompt(tools)]))
    parts, offered = (tuple(shown), json.dumps(list(tools))) if own else ((), "")
    context = encoder.context(Dialogue(system, tuple(turns), text, parts, offered))
    action = said.written()
    ids = {"context_ids": context, "action_ids": encoder.action(action)}
    return Turn(observation=text, action=action, **ids)


def _is_otlp(line: str) -> bool:
    if "resourceSpans" not in line:
        return False
    try:
        return "resourceSpans" in _object(json.loads(line))
    except ValueError:
        return False


def _spans(line: dict[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """When each GenAI span of a line began, and its attributes."""
    if "resourceSpans" not in line:
        flat = _attributes(line.get("attributes", line))
        if not _is_genai(flat):
            raise ValueError("expected a span with GenAI attributes, got none")
        yield _started(line), flat
        return
    for resource in line["resourceSpans"]:
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                attributes = _attributes(span.get("attributes") or ())
                if _is_genai(attributes):
                    yield _started(span), attributes


def _is_genai(attributes: Mapping[str, Any]) -> bool:
    return any(name.startswith("gen_ai.") for name in attributes)


def _started(span: Mapping[str, Any]) -> int:
    return int(span.get("startTimeUnixNano") or 0)


def _attributes(given: Any) -> Mapping[str, Any]:
    """By name, from OTLP's list of keys and values too."""
    if isinstance(given, Mapping):
        return given
    return {one["key"]: _plain(one["value"]) for one in given}


def _plain(value: Mapping[str, Any]) -> Any:
    """A value of OTLP's JSON as JSON has it."""
    if "arrayValue" in value:
        return [_plain(one) for one in value["arrayValue"].get("values") or ()]
    if "kvlistValue" in value:
        return _attributes(value["kvlistValue"].get("values") or ())
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)


def _chat_of(attributes: Mapping[str, Any]) -> Chat:
    messages: list[Mapping[str, Any]] = []
    if told := _json(attributes.get("gen_ai.system_instructions")):
        messages.append({"role": "system", "content": _parts_text(told)})
    for name in MESSAGES:
        given = _json(attributes.get(name))
        if not given:
            raise ValueError(f"the span has no {name}, so its texts were not captured")
        messages += [one for message in given for one in _as_chat(message)]
    offered = _json(attributes.get("gen_ai.tool.definitions")) or ()
    return Chat(messages, [_as_tool(_object(one)) for one in offered])


def _as_tool(given: dict[str, Any]) -> dict[str, Any]:
    """A tool's definition in OpenAI's format; a span has what is in `function` beside the type."""
    if "function" in given or given.get("type") != "function":
        return given
    own = {name: value for name, value in given.items() if name != "type"}
    return {"type": "function", "function": own}


def _as_chat(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A message made of parts, in OpenAI's format; each result of a tool is one of its own."""
    parts = message["parts"]
    calls = [
        {"function": {"name": part["name"], "arguments": part.get("arguments") or {}}}
        for part in parts
        if part.get("type") == "tool_call"
    ]
    results = [part for part in parts if part.get("type") == "tool_call_response"]
    for part in results:
        result = part.get("response", part.get("result", ""))
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        yield {"role": "tool", "content": text}
    if not results or len(results) < len(parts):
        yield {"role": message["role"], "content": _parts_text(parts), "tool_calls": calls}


def _parts_text(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(str(part["content"]) for part in parts if part.get("type") == "text")


def _json(value: Any) -> Any:
    """An attribute that holds JSON, as text or as it is."""
    return json.loads(value) if isinstance(value, str) else value


def _text(content: Any) -> str:
    """The text of a message; images and the like cannot be learned from."""
    if content is None or isinstance(content, str):
        return content or ""
    if any(part.get("type") != "text" for part in content):
        raise ValueError("expected text, got a message with other content")
    return "\n".join(part["text"] for part in content)


def _call(call: Mapping[str, Any]) -> Any:
    function = call["function"]
    return made_call(function["name"], _object(_json(function.get("arguments") or {})))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {value!r:.60}")
    return value


def _different(made: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
    return tuple({one.content_digest: one for one in made}.values())


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"expected JSON: {error}"
    return f"expected a field {error}" if isinstance(error, KeyError) else str(error)


def import_file(file: Path, encoder: Encoder) -> list[Trajectory]:
    """The conversations in a file; one with any other line is refused."""
    with boundary(StoreError, f"environment 'service': imports = {str(file)!r}"):
        # Not splitlines: JSON may hold other ends of lines as they are.
        found = import_logs(file.read_text(encoding="utf-8").split("\n"), encoder)
    if found.refused:
        raise ConfigError(
            f"{file} has {len(found.refused)} lines that are no conversations, the first: "
            f"{found.refused[0]}",
            hint="one JSON object a line: messages in OpenAI's chat format, or resourceSpans",
        )
    return [*found.episodes]
