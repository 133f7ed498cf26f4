"""Shops whose customers write to a desk: their goods, and their rule for each case.

Their rules contradict each other on purpose: an agent that has memorised one shop's rules is wrong
in the next; one that looks them up is right in all.
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
"""Orders per customer and case."""

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
    """One organisation's goods, rules and customers."""

    goods: tuple[str, ...]
    rules: Mapping[str, str]
    """Case -> remedy."""
    customers: Mapping[Split, tuple[str, ...]]
    """No customer belongs to two shops or splits."""


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
    "toys": DeskShop(
        ("puzzle", "kite", "robot", "teddy", "drum", "marbles"),
        {"late": "voucher", "damaged": "replace", "wrong": "refund", "unwanted": "deny"},
        {
            "train": ("Adil", "Bram", "Cora", "Dag", "Elsa", "Faro", "Gina", "Hal"),
            "test": ("Ida", "Jim", "Kaya", "Levi"),
        },
    ),
    "tea": DeskShop(
        ("kettle", "teapot", "tray", "mug", "strainer", "caddy"),
        {"late": "deny", "damaged": "voucher", "wrong": "replace", "unwanted": "refund"},
        {
            "train": ("Maya", "Nils", "Olga", "Paul", "Rania", "Sven", "Tess", "Ugo"),
            "test": ("Viola", "Wout", "Xenia", "Yuri"),
        },
    ),
    "bikes": DeskShop(
        ("bell", "saddle", "pump", "helmet", "basket", "chain"),
        {"late": "refund", "damaged": "voucher", "wrong": "replace", "unwanted": "deny"},
        {
            "train": ("Anja", "Boris", "Clara", "Derk", "Enno", "Flora", "Gero", "Heidi"),
            "test": ("Ivan", "Judy", "Koen", "Luca"),
        },
    ),
    "plants": DeskShop(
        ("fern", "cactus", "palm", "orchid", "ivy", "bonsai"),
        {"late": "replace", "damaged": "deny", "wrong": "voucher", "unwanted": "refund"},
        {
            "train": ("Malik", "Nora", "Oskar", "Petra", "Rafa", "Selma", "Timo", "Ulla"),
            "test": ("Vico", "Wanda", "Yves", "Zara"),
        },
    ),
    "tools": DeskShop(
        ("hammer", "drill", "saw", "wrench", "ladder", "chisel"),
        {"late": "replace", "damaged": "refund", "wrong": "deny", "unwanted": "voucher"},
        {
            "train": ("Arne", "Birte", "Cesar", "Dora", "Edda", "Falk", "Gwen", "Horst"),
            "test": ("Ilka", "Jari", "Kira", "Lutz"),
        },
    ),
    "rugs": DeskShop(
        ("carpet", "runner", "doormat", "kilim", "blanket", "cushion"),
        {"late": "refund", "damaged": "deny", "wrong": "voucher", "unwanted": "replace"},
        {
            "train": ("Marta", "Niko", "Odile", "Pablo", "Ruth", "Simon", "Tilda", "Ursel"),
            "test": ("Vito", "Wim", "Yoko", "Zeno"),
        },
    ),
}


class CustomerRequest(NamedTuple):
    """A customer, the order they mean, and what is wrong with it."""

    customer: str
    number: str
    item: str
    price: int
    """Whole euros."""
    case: str


def request_of(shop: str, customer: str, case: str, order: int) -> CustomerRequest:
    """That order of a customer in that case; always the same."""
    random = Random(seed_of("desk", shop, customer, case, order))
    number, price = str(random.randint(101, 999)), random.randint(11, 98)
    return CustomerRequest(customer, number, random.choice(SHOPS[shop].goods), price, case)


def letter(request: CustomerRequest, *, by: str) -> str:
    """What the customer writes; `by` decides whether they give their order number."""
    letters = LETTERS if by == "order" else LETTERS_BY_NAME
    chosen = seed_of("letter", *request) % len(letters)
    return letters[chosen].format(name=request.customer, number=request.number)
