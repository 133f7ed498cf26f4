"""The messages of a request -> a conversation: what was shown, answered and asked."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fedse.agent.calls import FunctionCall, Said, made_call, returned, tools_prompt
from fedse.agent.policy import Dialogue, Message
from fedse.agent.prompt import Encoder
from fedse.types import Turn
from fedse_agents.refused import RequestRefused

ROLES = ("system", "developer", "user", "tool", "function", "assistant")

Shown = tuple[Message, ...]
"""What was shown at once; the roles are user and tool, and no two neighbours are both user."""


class ShownAndAnswered(NamedTuple):
    """What was shown and what the assistant answered to it."""

    shown: Shown
    answered: Said


class Conversation(NamedTuple):
    """The conversation so far, as the program gives it, and its current question."""

    system: str
    past: tuple[ShownAndAnswered, ...]
    shown: Shown
    tools: str = ""
    """The tools that are offered, as a JSON list; empty = none."""

    def dialogue(self, turns: Sequence[Turn], shown: Shown, encoder: Encoder | None) -> Dialogue:
        """The question `shown` after `turns`, with the tools in the form of the chat template."""
        text = text_of(shown, tools=bool(self.tools))
        if not self.tools:
            return Dialogue(self.system, tuple(turns), text)
        if encoder is not None and encoder.template_has_tools:
            return Dialogue(self.system, tuple(turns), text, shown, self.tools)
        prompt = tools_prompt(json.loads(self.tools))
        system = f"{self.system}\n\n{prompt}" if self.system else prompt
        return Dialogue(system, tuple(turns), text)


def text_of(shown: Shown, *, tools: bool) -> str:
    """Everything that was shown as one text, with marks around the tools' results."""
    marked = [returned(text) if tools and role == "tool" else text for role, text in shown]
    return "\n\n".join(marked)


def asked(text: str) -> Shown:
    """A user's words."""
    return (Message("user", text),)


def conversation_of(messages: object, tools: str = "") -> Conversation:
    """Leading system messages are the system prompt; those between two answers belong together."""
    if not isinstance(messages, list) or not messages:
        raise RequestRefused(
            400, "no_messages", "messages must be a list with at least one message"
        )
    system: list[str] = []
    shown: list[Message] = []
    past: list[ShownAndAnswered] = []
    for number, message in enumerate(messages):
        role, text = _message(number, message)
        if role == "assistant":
            answered = Said(text.strip(), _calls(number, message))
            past.append(ShownAndAnswered(_joined(shown), answered))
            shown = []
        elif role in ("system", "developer") and not shown and not past:
            system.append(text)
        else:
            shown.append(Message("tool" if role in ("tool", "function") else "user", text))
    if not shown:
        raise RequestRefused(
            400, "nothing_asked", "the last message must be the user's or a tool's"
        )
    return Conversation("\n\n".join(system), tuple(past), _joined(shown), tools)


def _joined(messages: Sequence[Message]) -> Shown:
    """Consecutive user messages are joined."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role == message.role == "user":
            message = Message("user", f"{joined.pop().content}\n\n{message.content}")
        joined.append(message)
    return tuple(joined)


def _message(number: int, message: object) -> tuple[str, str]:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise RequestRefused(
            400, "bad_message", f"messages[{number}] must have a role of {', '.join(ROLES)}"
        )
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise RequestRefused(400, "bad_message", f"messages[{number}].content must be text")
    return message["role"], "".join(map(str, texts))


def _calls(number: int, message: dict[str, Any]) -> tuple[FunctionCall, ...]:
    listed = message.get("tool_calls") or []
    if message.get("function_call") or not isinstance(listed, list):
        raise _bad_call(f"messages[{number}].tool_calls")
    return tuple(
        _call(f"messages[{number}].tool_calls[{place}]", call) for place, call in enumerate(listed)
    )


def _call(where: str, call: object) -> FunctionCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _bad_call(where)
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (TypeError, ValueError, RecursionError):
        raise _bad_call(where) from None
    if not isinstance(arguments, dict):
        raise _bad_call(where)
    return made_call(function["name"], arguments)


def _bad_call(where: str) -> RequestRefused:
    message = "must call a function, with its name and its arguments as a JSON object in a string"
    return RequestRefused(400, "bad_message", f"{where} {message}", param=where)
