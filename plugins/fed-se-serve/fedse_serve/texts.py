"""What a request and its answer say, as text: for redaction, for guards, and for people."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fedse_serve.asked import SAID, Asked
from fedse_serve.rows import Guards
from fedse_serve.told import Told

REFUSAL = re.compile(r"\s*(i'?m sorry|i am sorry|sorry,|i can(no|')t|i am (not able|unable))", re.I)
"""How a model that declines begins; a rate that jumps is what counts, not a single turn."""


class Texts(NamedTuple):
    """The texts of a request."""

    shown: tuple[str, ...]
    """Up to the agent's last message, but for its own."""
    said: tuple[str, ...]
    """The agent's own."""
    new: str
    """Since its last message."""


def texts_of(asked: Asked) -> Texts:
    """The request's texts, in the order in which the model is shown them."""
    given = asked.body[SAID[asked.route]]
    messages = given if isinstance(given, list) else [{"role": "user", "content": given}]
    tools = json.dumps(asked.body["tools"]) if asked.body.get("tools") else ""
    told = [asked.body.get("instructions") or "", tools]
    texts = [(_is_own(message), "\n".join(_texts(message))) for message in messages]
    last = max((place for place, (own, _) in enumerate(texts) if own), default=-1)
    shown = [text for own, text in texts[: last + 1] if not own]
    return Texts(
        shown=(*filter(None, told), *shown),
        said=tuple(text for own, text in texts if own),
        new="\n".join(text for _, text in texts[last + 1 :]),
    )


def guards_of(told: Told, *, seconds: float, broke: bool) -> Guards:
    """Facts about a turn that show whether an adapter misbehaves."""
    text = "".join(told.text).strip()
    return Guards(
        invalid_calls=told.invalid_calls,
        asked=text.endswith("?") and not told.calls,
        refused=bool(REFUSAL.match(text)),
        error="broke_off" if broke else "",
        seconds=round(seconds, 3),
    )


def reply_of(told: Told) -> str:
    """What the agent said, where no tokenizer is at hand: its text, then its calls."""
    calls = [{"name": name, "arguments": "".join(rest)} for name, *rest in told.calls.values()]
    return "".join(told.text) + "".join(f"\n{json.dumps(call)}" for call in calls)


def _is_own(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant" or message.get("type") in (
        "function_call",
        "reasoning",
    )


def _texts(value: object) -> Iterator[str]:
    """All texts in a message but its marks such as roles and ids."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name not in ("role", "type", "id", "call_id", "tool_call_id", "status"):
                yield from _texts(one)
