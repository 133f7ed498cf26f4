"""What a reply must look like: calls of certain tools, or JSON of a certain schema.

A policy with `keeps_shapes` samples only tokens with which the reply can still become what was
asked for. In this process llguidance says which tokens those are; a vLLM server is sent the same
as `structured_outputs`.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedse.agent.calls import AFTER_ARGUMENTS, before_arguments

LACKING = "llguidance is not installed: pip install fed-se-agents"
# One way to write the same value, or a small model spends its tokens on blanks.
DENSE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class CallShape(NamedTuple):
    """A tool, and the JSON schema of its arguments."""

    name: str
    arguments: str


class Shape(NamedTuple):
    """Calls to these tools, or an answer that follows this schema if there is one."""

    calls: tuple[CallShape, ...] = ()
    many: bool = False
    """Several calls in one reply are allowed."""
    answer: str | None = None
    """A JSON schema."""


@lru_cache(maxsize=64)
def shape_error(shape: Shape) -> str:
    """Why no reply can be held to `shape`; empty when one can."""
    if find_spec("llguidance") is None:
        return LACKING
    from llguidance import LLMatcher

    return str(LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(lark_of(shape))))


def lark_of(shape: Shape) -> str:
    """The shape as a grammar that llguidance reads."""
    rules: list[str] = []
    starts: list[str] = []
    for number, (name, schema) in enumerate(shape.calls):
        begin, end = json.dumps(before_arguments(name)), json.dumps(AFTER_ARGUMENTS)
        rules += [f"call{number}: {begin} args{number} {end}", f"args{number}: {_json(schema)}"]
    if shape.calls:
        names = " | ".join(f"call{number}" for number in range(len(shape.calls)))
        rules += [f"call: {names}", "calls: call" + (' ("\\n" call)*' if shape.many else "")]
        starts.append("calls")
    if shape.answer is not None:
        rules.append(f"answer: {_json(shape.answer)}")
        starts.append("answer")
    return "\n".join([f"start: {' | '.join(starts)}", *rules])


def structured_outputs(shape: Shape) -> dict[str, Any]:
    """The shape as a parameter of vLLM."""
    if not shape.calls:
        return {"json": json.loads(shape.answer or "{}")}
    tags = [
        {
            "type": "tag",
            "begin": before_arguments(name),
            "content": {"type": "json_schema", "json_schema": json.loads(schema)},
            "end": AFTER_ARGUMENTS,
        }
        for name, schema in shape.calls
    ]
    calls: dict[str, Any] = {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": "\n",
        "at_least_one": True,
        "stop_after_first": not shape.many,
    }
    if shape.answer is not None:
        answer = {"type": "json_schema", "json_schema": json.loads(shape.answer)}
        calls = {"type": "or", "elements": [calls, answer]}
    return {"structural_tag": json.dumps({"type": "structural_tag", "format": calls})}


def _json(schema: str) -> str:
    return "%json " + json.dumps({**json.loads(schema), "x-guidance": DENSE})


class ShapeKeeper:
    """Says which tokens may come next in each of several replies that are sampled together."""

    def __init__(self, tokenizer: Any, width: int, shapes: Sequence[Shape | None]) -> None:
        self._width = width
        self._matchers = {
            row: _matcher(tokenizer, width, shape)
            for row, shape in enumerate(shapes)
            if shape is not None
        }

    def allowed(self) -> dict[int, NDArray[np.bool_]]:
        """Row -> which tokens of the vocabulary; a row that is free is not in it."""
        masks = {}
        for row, matcher in self._matchers.items():
            bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
            masks[row] = np.unpackbits(bits, bitorder="little")[: self._width].astype(bool)
        return masks

    def forced(self, row: int) -> tuple[int, ...]:
        """The next tokens, where only one text is possible; they count as sampled."""
        if row not in self._matchers:
            return ()
        ids = tuple(self._matchers[row].compute_ff_tokens())
        self._matchers[row].consume_tokens(list(ids))
        return ids

    def take(self, row: int, token: int) -> None:
        """The token was sampled."""
        if row in self._matchers:
            self._matchers[row].consume_token(token)


def _matcher(tokenizer: Any, width: int, shape: Shape) -> Any:
    from llguidance import LLMatcher

    return LLMatcher(_tokens(tokenizer, width), LLMatcher.grammar_from_lark(lark_of(shape)))


@lru_cache(maxsize=1)
def _tokens(tokenizer: Any, width: int) -> Any:
    """The tokenizer as llguidance reads it; made once, for a large vocabulary takes a second."""
    from llguidance import LLTokenizer

    file = json.loads(tokenizer.backend_tokenizer.to_str())
    step = file.get("pre_tokenizer") or {}
    for part in (step, *step.get("pretokenizers", ())):
        if part.get("type") == "ByteLevel":
            # Or every forced piece of a reply would begin with a blank.
            part["add_prefix_space"] = False
    file["padding"] = file["truncation"] = None
    eos = tokenizer.eos_token_id
    return LLTokenizer(json.dumps(file), n_vocab=width, eos_token=eos)
