"""Reads the action from the text of the agent, in the same way for every environment."""

import re

_MARK = re.compile(r"action\s*:", re.IGNORECASE)


def action_of(text: str) -> str:
    """The first line after the last `Action:`, else the whole text; words single-spaced."""
    *before, action = _MARK.split(text)
    if before:
        action = next((line for line in action.splitlines() if line.strip()), "")
    return " ".join(action.split())
