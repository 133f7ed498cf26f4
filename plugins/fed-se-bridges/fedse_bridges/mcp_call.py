"""How tools are shown to the agent, and how its text becomes a call; no process is involved."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedse.envs import action_of

FINISH = "finish"
# The official SDK's servers (1.30 and 2.3) never answer a call nested 250 deep.
MAX_DEPTH = 32

_MARK = re.compile(r"^\s*action\s*:", re.IGNORECASE | re.MULTILINE)


class ToolCall(NamedTuple):
    tool: str
    arguments: Mapping[str, Any]


def manual(tools: Sequence[Mapping[str, Any]]) -> str:
    """The tools and how to call them, for the system prompt."""
    lines = [
        "Each turn, call one tool by writing a line such as",
        'Action: {"tool": "name", "arguments": {"key": "value"}}',
        f"or end the task by writing Action: {FINISH}",
        "The tools, each with the JSON schema of its arguments:",
    ]
    for tool in tools:
        about = " ".join(str(tool.get("description") or "").split())
        schema = json.dumps(tool["inputSchema"], ensure_ascii=False)
        lines.append(f"- {tool['name']}: {about} Arguments: {schema}")
    return "\n".join(lines)


def written(call: ToolCall) -> str:
    """The call as the agent writes it."""
    return "Action: " + json.dumps({"tool": call.tool, "arguments": call.arguments})


def call_of(text: str) -> ToolCall | None:
    """The call or the finish that `text` means, or None.

    The JSON is the first object after the last line that starts with `Action:`, and may span
    lines.
    """
    if action_of(text).strip(".`'\"").lower() == FINISH:
        return ToolCall(FINISH, {})
    *_, tail = _MARK.split(text)
    try:
        value, _ = json.JSONDecoder().raw_decode(tail, tail.index("{"))
        # What the wire cannot carry (NaN, infinity, half a character) is not a call.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    tool, arguments = value.get("tool"), value.get("arguments", {})
    if not isinstance(tool, str) or not isinstance(arguments, dict) or _depth(value) > MAX_DEPTH:
        return None
    return ToolCall(tool, arguments)


def text_of(result: Mapping[str, Any]) -> str:
    """The content of a tool's result as one text; content that is not text is named by its type."""
    parts = result.get("content") or ()
    texts = [str(part.get("text", f"[{part.get('type')}]")) for part in parts]
    if not texts and "structuredContent" in result:
        texts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    return "\n".join(texts) or "(nothing)"


def state_of(result: Mapping[str, Any]) -> Any:
    """The value a result carries: its structured content, or its text read as JSON if it is."""
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    contents = result.get("contents")
    text = text_of(result if contents is None else {"content": contents})
    try:
        return json.loads(text)
    except ValueError:
        return text


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)
