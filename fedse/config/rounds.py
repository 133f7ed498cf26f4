"""How many rounds an experiment has: a number of them, or no end."""

import json
from typing import Annotated, Literal

from pydantic import PlainValidator, WithJsonSchema

OPEN: Literal["open"] = "open"
ENDLESS = 10**9
"""Stands for the last round where there is none: with one a minute, it is 1,900 years away."""


def _checked(given: object) -> object:
    # Not pydantic's union, which reports one error for each of its members.
    if given == OPEN or (type(given) is int and given >= 0):
        return given
    raise ValueError(
        f'run.rounds must be a whole number >= 0, or "open", got {json.dumps(given, default=str)}'
    )


Rounds = Annotated[
    int | Literal["open"],
    PlainValidator(_checked),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": OPEN}]}),
]


def last_round(rounds: Rounds) -> int:
    """The number of the last round, to compare with; no round of an open experiment reaches it."""
    return ENDLESS if rounds == OPEN else rounds


def out_of(round: int | str, rounds: Rounds) -> str:
    """`5 of 20`, or `5` where there is no end."""
    return str(round) if rounds == OPEN else f"{round} of {rounds}"
