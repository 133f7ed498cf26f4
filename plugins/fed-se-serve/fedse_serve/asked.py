"""A request of an application, and what the gateway makes of it before it asks the engine.

The request goes on as it came, with these changes: the model is the adapter that serves the
session, and token ids are asked for, with log-probabilities where the engine can tell them.
Parameters that are for the gateway alone (`metadata`, `user`) do not reach the engine.
"""

import json
import secrets
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Route = Literal["chat/completions", "responses"]
"""The two ways of OpenAI to ask for a turn."""
SAID: Mapping[Route, str] = {"chat/completions": "messages", "responses": "input"}
"""The parameter with what the model is shown."""
TOKENS: Mapping[Route, Mapping[str, bool]] = {
    "chat/completions": {"return_token_ids": True, "logprobs": True},
    "responses": {"enable_response_messages": True},
}
"""What vLLM has to be asked for to tell its tokens."""
SESSION_HEADERS = ("x-fedse-session-id", "x-litellm-session-id")
LEARN_HEADER, PERSON_HEADER = "x-fedse-learn", "x-fedse-person"
NAME_LENGTH = 200
"""Characters of a session's or person's name at most."""
OWN = frozenset({"metadata", "store", "user", "safety_identifier", "prompt_cache_key"})
"""Parameters that say nothing about what is to be sampled."""
SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "stop",
    "tool_choice",
    "response_format",
    "text",
)
"""Parameters that change which tokens are drawn; kept with every turn."""


ROLE = "role"
"""Under which the role of a turn is kept, beside its parameters."""


class Refused(Exception):
    """A request that is answered with a 4xx or 5xx and OpenAI's error body."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, retry: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param
        self.retry = retry
        """Seconds after which asking again makes sense; 0 = not said."""

    def as_json(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        facts = {"message": str(self), "type": kind, "code": self.code, "param": self.param}
        return {"error": facts}


class Asked(NamedTuple):
    """One request for a turn."""

    route: Route
    session: str
    named: bool
    """Whether the application named the session; if not, nobody can come back to it."""
    person: str | None
    learn: bool
    """Whether the session may be learned from, as far as this request says."""
    body: dict[str, Any]
    """For the engine, without its model."""
    model: str
    """As the application calls it."""
    stream: bool
    usage: bool
    """Whether a streamed answer ends with the token counts."""
    log_chances: bool
    """Whether the application itself asked for log-probabilities."""
    role: str = ""
    """The role of the agent that is asked; empty = the agent has no roles."""

    @property
    def sampling(self) -> dict[str, Any]:
        role = {ROLE: self.role} if self.role else {}
        return role | {
            name: self.body[name] for name in SAMPLING if self.body.get(name) is not None
        }


def parse_asked(route: Route, raw: bytes, headers: Mapping[str, str]) -> Asked:
    """The request in a body; what cannot be served as it says is refused."""
    given = json_object(raw)
    if not given.get(SAID[route]):
        raise _wrong(SAID[route], "what the model is shown", given.get(SAID[route]))
    if given.get("n") not in (None, 1):
        raise _wrong("n", "1, because one answer continues the session", given["n"])
    metadata = given.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _wrong("metadata", "an object", metadata)
    named = metadata.get("session_id") or next(filter(None, map(headers.get, SESSION_HEADERS)), "")
    person = headers.get(PERSON_HEADER) or given.get("safety_identifier") or given.get("user")
    options = given.get("stream_options") or {}
    body = {name: value for name, value in given.items() if name not in OWN | {"model"}}
    return Asked(
        route=route,
        session=_name("session_id", named) if named else secrets.token_hex(16),
        named=bool(named),
        person=_name("user", person) if person else None,
        learn=headers.get(LEARN_HEADER, "yes").strip().lower() not in ("no", "false", "0"),
        body={**body, **TOKENS[route]},
        model=str(given.get("model") or "fedse"),
        stream=bool(given.get("stream")),
        usage=isinstance(options, dict) and bool(options.get("include_usage")),
        log_chances=bool(given.get("logprobs")),
    )


def json_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body; anything else is refused."""
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError):
        raise Refused(400, "bad_json", "the body must be a JSON object") from None
    if not isinstance(given, dict):
        raise Refused(400, "bad_json", f"the body must be a JSON object, got {given!r:.60}")
    return given


def _name(param: str, given: object) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= NAME_LENGTH or not given.isprintable():
        raise _wrong(param, f"1 to {NAME_LENGTH} printable characters", given)
    return given


def _wrong(param: str, expected: str, got: object) -> Refused:
    return Refused(
        400, "bad_parameter", f"{param} must be {expected}, got {got!r:.60}", param=param
    )
