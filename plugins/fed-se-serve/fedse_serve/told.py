"""The engine's answer: what of it the application gets, and what of it is recorded.

An application gets what it asked for: token ids and log-probabilities that only the gateway asked
for are taken out. What is recorded comes from the same bytes, so nothing is computed again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedse_serve.asked import Asked

DONE = b"[DONE]"
ENDED = ("completed", "incomplete")
"""How a response that was sampled to its end says so."""
DECIMALS = 4
"""Of log-probabilities."""


@dataclass
class Told:
    """One answer, collected while it passes."""

    asked: Asked
    adapter: str = ""
    """The name under which the engine says it answered."""
    prompt_ids: list[int] = field(default_factory=list)
    action_ids: list[int] = field(default_factory=list)
    log_chances: list[float] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    calls: dict[int, list[str]] = field(default_factory=dict)
    """Place of a call -> its name and the pieces of its arguments."""
    finish: str = ""
    """Why the answer ended; empty = it did not."""

    @property
    def exact(self) -> bool:
        """Whether every token that was shown and sampled is known."""
        return bool(self.finish) and bool(self.prompt_ids) and bool(self.action_ids)

    @property
    def invalid_calls(self) -> int:
        """Calls whose arguments are not a JSON object."""
        return sum(not _is_object("".join(pieces[1:])) for pieces in self.calls.values())

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        """An answer that came at once, as the application gets it."""
        if self.asked.route == "responses":
            return self._response(answer)
        for choice in answer.get("choices") or ():
            message = choice.get("message") or {}
            self._take(answer, choice, message)
            self._clean(choice)
        return self._named(answer)

    def chunk(self, data: bytes) -> bytes | None:
        """One event of a streamed answer, as the application gets it; None = it gets nothing."""
        if data == DONE:
            return data
        event = json.loads(data)
        if self.asked.route == "responses":
            if isinstance(event.get("response"), dict):
                event["response"] = self._response(event["response"])
            return json.dumps(event, ensure_ascii=False).encode()
        choices = event.get("choices") or []
        for choice in choices:
            self._take(event, choice, choice.get("delta") or {})
            self._clean(choice)
        silent = not any(choice.get("delta") or choice.get("finish_reason") for choice in choices)
        if silent and not (self.asked.usage and event.get("usage")):
            return None
        return json.dumps(self._named(event), ensure_ascii=False).encode()

    def _take(
        self, answer: Mapping[str, Any], choice: Mapping[str, Any], message: Mapping[str, Any]
    ) -> None:
        self.adapter = str(answer.get("model") or self.adapter)
        self.prompt_ids = answer.get("prompt_token_ids") or self.prompt_ids
        self.action_ids += choice.get("token_ids") or ()
        content = (choice.get("logprobs") or {}).get("content") or ()
        self.log_chances += [round(float(one["logprob"]), DECIMALS) for one in content]
        self.finish = choice.get("finish_reason") or self.finish
        if message.get("content"):
            self.text.append(message["content"])
        for place, call in enumerate(message.get("tool_calls") or ()):
            function = call.get("function") or {}
            pieces = self.calls.setdefault(call.get("index", place), [""])
            pieces[0] = pieces[0] or function.get("name") or ""
            pieces.append(function.get("arguments") or "")

    def _response(self, response: dict[str, Any]) -> dict[str, Any]:
        """A response without its tokens, which are recorded once it has ended."""
        shown, said = (response.pop(f"{way}_messages", None) or () for way in ("input", "output"))
        if response.get("status") in ENDED:
            self.adapter, self.finish = str(response.get("model") or ""), response["status"]
            self.prompt_ids = [token for one in shown for token in one.get("tokens") or ()]
            self.action_ids = [token for one in said for token in one.get("tokens") or ()]
            for place, item in enumerate(response.get("output") or ()):
                self.text += [part.get("text") or "" for part in item.get("content") or ()]
                if item.get("type") == "function_call":
                    self.calls[place] = [item.get("name") or "", item.get("arguments") or ""]
        return self._named(response)

    def _clean(self, choice: dict[str, Any]) -> None:
        choice.pop("token_ids", None)
        if not self.asked.log_chances:
            choice["logprobs"] = None

    def _named(self, answer: dict[str, Any]) -> dict[str, Any]:
        answer.pop("prompt_token_ids", None)
        answer["model"] = self.asked.model
        return answer


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text or "{}"), dict)
    except (ValueError, RecursionError):
        return False
