"""What a purchase is worth: the published WebShop formula (arXiv 2207.01206).

    r = r_type * (attribute hits + option hits + [price <= limit]) / (attributes + options + 1)

Departure from it: the nouns of a title are taken from the catalogue, not from a tagger.
EXACT in place of `published()` is stricter.
"""

from collections.abc import Callable, Iterable
from functools import cache
from operator import eq
from typing import NamedTuple

from rapidfuzz import fuzz, utils

from fedse_worlds.webshop.catalogue import Goal, Product
from fedse_worlds.webshop.words import BASE_COLORS


class Agreement(NamedTuple):
    """When two attributes, and when two values of options, count as the same."""

    attributes: Callable[[str, str], bool]
    options: Callable[[str, str], bool]


# `large` is not `x-large`, `navy blue` is not `blue`.
EXACT = Agreement(eq, eq)

# Published: two texts agree above this token-set ratio, rounded as thefuzz rounds it.
LEAST_RATIO = 85
# Published: common category levels, and shares of the wanted title's nouns, that make a type.
COMMON_LEVELS = 2
SAME_TYPE, OTHER_TYPE = 0.2, 0.1


def reward(bought: Product, chosen: Iterable[str], goal: Goal, agreement: Agreement) -> float:
    """In [0, 1]; 1 exactly when type, all attributes, all options and the price are right."""
    hits = attribute_hits(bought, goal, agreement) + option_hits(chosen, goal, agreement)
    hits += bought.price <= goal.limit
    return type_share(bought, goal.product) * hits / (len(goal.attributes) + len(goal.values) + 1)


def attribute_hits(bought: Product, goal: Goal, agreement: Agreement) -> int:
    """How many wanted attributes the product has, or names anywhere in its texts."""
    texts = (bought.title, " ".join(bought.bullets), bought.description)
    return sum(
        any(agreement.attributes(own, wanted) for own in bought.attributes)
        or any(wanted in t for t in texts)
        for wanted in goal.attributes
    )


def option_hits(chosen: Iterable[str], goal: Goal, agreement: Agreement) -> int:
    """How many wanted values agree with a chosen one, whatever axis it belongs to."""
    values = tuple(chosen)
    return sum(any(agreement.options(value, wanted) for value in values) for wanted in goal.values)


def type_share(bought: Product, wanted: Product) -> float:
    """r_type: 1 for the right type of product, down to 0 for titles with no noun in common."""
    levels = set(bought.category) & set(wanted.category)
    nouns = wanted.title_nouns
    common = len(bought.title_nouns & nouns) / len(nouns)
    if common == 0:
        return 0.0
    if common < OTHER_TYPE:
        return 0.1
    right = bought.kind == wanted.kind or len(levels) >= COMMON_LEVELS or common > SAME_TYPE
    return 1.0 if right else 0.5


@cache
def published() -> Agreement:
    """By token-set ratio: `large` agrees with `x-large`; for options a shade with its colour."""

    def alike(one: str, other: str) -> bool:
        ratio = fuzz.token_set_ratio(one, other, processor=utils.default_process)
        return round(ratio) > LEAST_RATIO

    return Agreement(alike, lambda one, other: alike(plain_color(one), plain_color(other)))


def plain_color(value: str) -> str:
    """The colour a shade belongs to; a value that names no colour stays as it is."""
    return next((color for color in BASE_COLORS if color in value), value)
