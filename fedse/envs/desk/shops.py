"""Shops whose customers write to a desk: what they sell, and what each does in which case.

Their rules contradict each other on purpose: who knows one shop's rules by heart is wrong in the
next, who looks them up is right in all.
"""

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from fedse.seeds import seed_of
from fedse.types import Split

CASES = ("late", "damaged", "wrong", "unwanted")
PAYING = ("refund", "voucher")
"""Remedies that name an amount, the price of the order."""
REMEDIES = (*PAYING, "replace", "deny")

ORDERS = 3
"""Of one customer in one case."""

LETTERS = (
    "I am {name}. Something is not right with order {number}.",
    "{name} here, please look at my order {number}.",
    "My name is {name}, order {number}. What can you do for me?",
)
LETTERS_BY_NAME = (
    "I am {name}. Something is not right with my order.",
    "{name} here, please look at what I ordered.",
    "My name is {name}. What can you do about my order?",
)


class DeskShop(NamedTuple):
    """What one organisation sells and does, and for whom."""

    goods: tuple[str, ...]
    rules: Mapping[str, str]
    """Case -> remedy."""
    customers: Mapping[Split, tuple[str, ...]]
    """No customer of one shop or split is in another."""


SHOPS: Mapping[str, DeskShop] = {
    "books": DeskShop(
        ("novel", "atlas", "diary", "comic", "guide", "poster"),
        {"late": "refund", "damaged": "replace", "wrong": "deny", "unwanted": "voucher"},
        {
            "train": ("Ada", "Ben", "Cleo", "Dov", "Eve", "Finn", "Gus", "Hana"),
            "test": ("Ines", "Jon", "Kim", "Lars"),
        },
    ),
    "lamps": DeskShop(
        ("lamp", "lantern", "torch", "bulb", "candle", "shade"),
        {"late": "replace", "damaged": "refund", "wrong": "voucher", "unwanted": "deny"},
        {
            "train": ("Mia", "Noor", "Otto", "Pia", "Quin", "Rosa", "Sam", "Tara"),
            "test": ("Uri", "Vera", "Will", "Yara"),
        },
    ),
    "shoes": DeskShop(
        ("boots", "sandals", "sneakers", "slippers", "clogs", "skates"),
        {"late": "voucher", "damaged": "deny", "wrong": "refund", "unwanted": "replace"},
        {
            "train": ("Abel", "Bea", "Carl", "Dina", "Emil", "Fay", "Greta", "Hugo"),
            "test": ("Iris", "Jana", "Karim", "Lea"),
        },
    ),
}


class CustomerRequest(NamedTuple):
    """A customer, the order they mean, and what is the matter with it."""

    customer: str
    number: str
    item: str
    price: int
    """Whole euros."""
    case: str


def request_of(shop: str, customer: str, case: str, order: int) -> CustomerRequest:
    """What that order of a customer in that case is: always the same."""
    random = Random(seed_of("desk", shop, customer, case, order))
    number, price = str(random.randint(101, 999)), random.randint(11, 98)
    return CustomerRequest(customer, number, random.choice(SHOPS[shop].goods), price, case)


def letter(request: CustomerRequest, *, by: str) -> str:
    """What the customer writes; `by` says whether they give the number of their order."""
    letters = LETTERS if by == "order" else LETTERS_BY_NAME
    chosen = seed_of("letter", *request) % len(letters)
    return letters[chosen].format(name=request.customer, number=request.number)
