"""The OpenAI chat format: a request's bytes -> a conversation and what its answer may be.

Parameters in FOLLOWED are honoured. Those in IGNORED are accepted and change nothing: sampling
belongs to the experiment, and there is no store, user or price here. Every other parameter would
change the answer, so it is refused by name; those in UNKEPT are accepted with their neutral values.
"""

import json
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from fedse_agents.conversation import Conversation, conversation_of
from fedse_agents.offer import Offer, offer_of
from fedse_agents.refused import RequestRefused, unsupported

FOLLOWED = frozenset(
    {
        "messages",
        "model",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
    }
)
IGNORED = frozenset(
    {
        # Sampling is set by rollout.temperature, rollout.new_tokens and run.seed.
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "seed",
        # Speed, price, storage and bookkeeping of a hosted service.
        "prediction",
        "service_tier",
        "store",
        "metadata",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
    }
)
# Parameters that cannot be honoured, with their neutral values; null is always neutral.
UNKEPT: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "stop": ([], ""),
    "modalities": (["text"],),
    "audio": (),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
}


class ChatRequest(NamedTuple):
    conversation: Conversation
    offer: Offer
    model: str
    stream: bool
    usage_in_stream: bool


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; an empty body is an empty object."""
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, "not_json", f"the body must be JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestRefused(
            400, "not_an_object", f"expected a JSON object, got {type(value).__name__}"
        )
    return value


def parse_request(body: bytes) -> ChatRequest:
    """The request in `body`, or RequestRefused with the reason."""
    return chat_request(json_object(body))


def chat_request(given: dict[str, Any]) -> ChatRequest:
    """The request with these parameters, or RequestRefused with the reason."""
    for name, value in given.items():
        require_kept(name, value, FOLLOWED | IGNORED, UNKEPT)
    options, offer = given.get("stream_options"), offer_of(given)
    tools = json.dumps(given["tools"]) if offer.functions else ""
    return ChatRequest(
        conversation=conversation_of(given.get("messages"), tools),
        offer=offer,
        model=str(given.get("model", "")),
        stream=given.get("stream") is True,
        usage_in_stream=isinstance(options, dict) and options.get("include_usage") is True,
    )


def require_kept(
    name: str, value: object, taken: Set[str], unkept: Mapping[str, tuple[Any, ...]]
) -> None:
    """Ignoring the parameter does not change the meaning of the answer."""
    if name in taken or value is None or value in unkept.get(name, ()):
        return
    kept = " or ".join(map(json.dumps, unkept.get(name, ())))
    only = f" but for {kept}" if kept else ""
    got = json.dumps(value)[:60]
    raise unsupported(name, f"is not supported here{only}, got {got}; leave it out")
