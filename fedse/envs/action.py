"""From what the agent said to the action it means; the same reading in every environment."""

import re

_MARK = re.compile(r"action\s*:", re.IGNORECASE)


def action_of(text: str) -> str:
    """The first line after the last `Action:`, or the whole text without one; blanks single."""
    *before, said = _MARK.split(text)
    if before:
        said = next((line for line in said.splitlines() if line.strip()), "")
    return " ".join(said.split())
