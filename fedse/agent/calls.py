"""How tool calls are written in the text that a model reads and says.

    <tool_call>
    {"name": "move", "arguments": {"way": "up"}}
    </tool_call>

A chat template that writes calls in this form, as Qwen's and Hermes' do, also says which tools
there are and what they returned. For any other template both are put into the system prompt and
the user's message in the words below.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

OPEN, CLOSE = "<tool_call>", "</tool_call>"
PROMPT = """# Tools

You may call one or more of these functions:
<tools>
{tools}
</tools>

To call a function, answer with its name and its arguments as JSON:
<tool_call>
{{"name": NAME, "arguments": {{...}}}}
</tool_call>"""


class FunctionCall(NamedTuple):
    """A function's name and its arguments as a JSON object, keys in order."""

    name: str
    arguments: str


class Said(NamedTuple):
    """What an assistant said: text, blanks at both ends aside, and calls."""

    text: str
    calls: tuple[FunctionCall, ...] = ()

    def written(self) -> str:
        """As a model would write it."""
        return "\n".join([*([self.text] if self.text else []), *map(written_call, self.calls)])


def made_call(name: str, arguments: dict[str, Any]) -> FunctionCall:
    """Equal for equal arguments, however their JSON was written."""
    return FunctionCall(name, json.dumps(arguments, sort_keys=True, ensure_ascii=False))


def written_call(call: FunctionCall) -> str:
    return f"{before_arguments(call.name)}{call.arguments}{AFTER_ARGUMENTS}"


def before_arguments(name: str) -> str:
    """The text of a call up to its arguments."""
    return f'{OPEN}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


AFTER_ARGUMENTS = f"}}\n{CLOSE}"


def read_calls(text: str, known: Callable[[str, dict[str, Any]], bool]) -> Said:
    """The calls in `text` whose name and arguments are known; all else in it stays text."""
    plain: list[str] = []
    calls: list[FunctionCall] = []
    rest = text
    while OPEN in rest:
        before, _, after = rest.partition(OPEN)
        call, end = _call_at(after, known)
        if call is None:
            plain.append(before + OPEN)
            rest = after
        else:
            plain.append(before)
            calls.append(call)
            rest = after[end:]
    return Said("".join([*plain, rest]).strip(), tuple(calls))


def _call_at(
    text: str, known: Callable[[str, dict[str, Any]], bool]
) -> tuple[FunctionCall | None, int]:
    """The call that begins `text`, and where the text after it begins."""
    blanks = len(text) - len(text.lstrip())
    try:
        value, end = json.JSONDecoder().raw_decode(text, blanks)
    except (ValueError, RecursionError):
        return None, 0
    rest = text[end:].lstrip()
    if not rest.startswith(CLOSE) or not isinstance(value, dict):
        return None, 0
    name, arguments = value.get("name"), value.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict) or not known(name, arguments):
        return None, 0
    return made_call(name, arguments), len(text) - len(rest) + len(CLOSE)


def tools_prompt(tools: Sequence[dict[str, Any]]) -> str:
    """Which tools there are and how to call one, for a template that cannot say it."""
    lines = (json.dumps(tool, ensure_ascii=False) for tool in tools)
    return PROMPT.format(tools="\n".join(lines))


def returned(text: str) -> str:
    """What a tool returned, as part of a user's message."""
    return f"<tool_response>\n{text}\n</tool_response>"
