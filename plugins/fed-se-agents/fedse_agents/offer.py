"""What an answer may and must be: tools, tool_choice, parallel_tool_calls and response_format.

With tool_choice "auto" the model replies freely, and calls are parsed from its reply. With
"required" or a named function it can only make calls, and with a response_format only write JSON of
that schema or make calls: the tokens are sampled under a grammar. `strict` functions must match
their schema in both cases: what does not match is text and not a call.
"""

import json
from typing import Any, Literal, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from fedse.agent.calls import Said, read_calls
from fedse.agent.shape import CallShape, Shape
from fedse_agents.refused import unsupported, wrong

NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
"""The schema of a function without parameters."""


class Function(NamedTuple):
    """A tool that may be called."""

    name: str
    parameters: dict[str, Any]
    strict: bool

    def takes(self, arguments: dict[str, Any]) -> bool:
        if not self.strict:
            return True
        try:
            # An empty registry: schemas that refer to a URL are not fetched.
            schema = Draft202012Validator(self.parameters, registry=Registry())
            return bool(schema.is_valid(arguments))
        except Unresolvable:
            return False


class Offer(NamedTuple):
    """The functions, whether one must be called, and the schema of an answer without a call."""

    functions: tuple[Function, ...] = ()
    choice: Literal["none", "auto", "required"] = "auto"
    only: str | None = None
    """The function that must be called."""
    parallel: bool = True
    answer: dict[str, Any] | None = None

    def read(self, text: str) -> Said:
        """What the model said, as text and calls."""
        if self.choice == "none" or not self.functions:
            return Said(text.strip())
        known = {function.name: function for function in self._callable()}
        said = read_calls(text, lambda name, args: name in known and known[name].takes(args))
        return said if self.parallel else said._replace(calls=said.calls[:1])

    def shape(self) -> Shape | None:
        """The required form of a reply; None = free text."""
        required = self.choice == "required"
        if not required and self.answer is None:
            return None
        functions = () if self.choice == "none" else self._callable()
        calls = tuple(
            CallShape(function.name, json.dumps(_closed(function.parameters)))
            for function in functions
        )
        answer = None if required or self.answer is None else json.dumps(self.answer)
        return Shape(calls, self.parallel and self.only is None, answer)

    @property
    def shaping_parameter(self) -> str:
        """Which parameter of the request asks for a shape."""
        return "tool_choice" if self.choice == "required" else "response_format"

    def _callable(self) -> tuple[Function, ...]:
        return tuple(f for f in self.functions if self.only in (None, f.name))


def offer_of(given: dict[str, Any]) -> Offer:
    """The offer in the parameters of a chat request."""
    tools = given.get("tools") or []
    if not isinstance(tools, list):
        raise wrong("tools", f"must be a list, got {type(tools).__name__}")
    functions = tuple(_function(number, tool) for number, tool in enumerate(tools))
    choice, only = _choice(given.get("tool_choice"), functions)
    parallel = given.get("parallel_tool_calls") is not False
    return Offer(functions, choice, only, parallel, _answer(given.get("response_format")))


def _function(number: int, tool: object) -> Function:
    where = f"tools[{number}]"
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind != "function" or not isinstance(tool, dict):
        raise unsupported(f"{where}.type", f"must be 'function' here, got {kind!r:.60}")
    described = tool.get("function")
    name = described.get("name") if isinstance(described, dict) else None
    if not isinstance(described, dict) or not isinstance(name, str) or not name:
        raise wrong(f"{where}.function.name", "must be a text")
    parameters = described.get("parameters") or NOTHING
    _require_schema(f"{where}.function.parameters", parameters)
    return Function(name, parameters, described.get("strict") is True)


def _choice(
    choice: object, functions: tuple[Function, ...]
) -> tuple[Literal["none", "auto", "required"], str | None]:
    if choice in (None, "auto"):
        return "auto", None
    if choice == "none":
        return "none", None
    if choice == "required" and functions:
        return "required", None
    named = choice.get("function") if isinstance(choice, dict) else None
    name = named.get("name") if isinstance(named, dict) else None
    if name is not None and name in [function.name for function in functions]:
        return "required", str(name)
    raise unsupported(
        "tool_choice",
        "must be none, auto, required or one of the given functions here, got "
        f"{json.dumps(choice)[:60]} and {len(functions)} functions",
    )


def _answer(response_format: object) -> dict[str, Any] | None:
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if response_format is None or kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    where = "response_format.json_schema.schema"
    if kind == "json_schema" and isinstance(response_format, dict):
        described = response_format.get("json_schema")
        schema = described.get("schema") if isinstance(described, dict) else None
        _require_schema(where, schema)
        return dict(schema or {})
    raise unsupported(
        "response_format",
        f"must have the type text, json_object or json_schema here, got {kind!r:.60}",
    )


def _require_schema(where: str, schema: object) -> None:
    if not isinstance(schema, dict):
        raise wrong(where, f"must be a JSON schema, got {type(schema).__name__}")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise wrong(where, f"is not a JSON schema: {error.message[:200]}") from None


def _closed(parameters: dict[str, Any]) -> dict[str, Any]:
    """A required call has exactly the described arguments."""
    if {"$ref", "allOf", "anyOf", "oneOf", "patternProperties"} & parameters.keys():
        return parameters
    return {**NOTHING, **parameters}
