"""The goods of the synthetic shop and what buyers want of them; the same on every machine.

Products come in pairs that the same buyers want, a cheap and a dear one, so that the first hit of
a good search is not always the right one. No two pairs are wanted for the same kind and attributes,
and both products of a pair are in one split, so what test buyers want is unseen. Product k depends
on k and the number of option axes alone: a small shop is the beginning of a large one, and a
product held out in one is held out in all.
"""

from collections.abc import Sequence
from functools import cache
from itertools import product as combinations_of
from random import Random
from typing import NamedTuple

from fedse import seed_of
from fedse.envs import Split
from fedse_worlds.webshop.words import AISLE_OF, BRANDS, KINDS, USES, Choice

# A buyer's limit is the larger of two drawn from so many multiples of ten above the price.
LIMIT_CHOICES = 4
# Whole dollars; the extra puts the dear one above every limit of the cheap one.
CHEAP_PRICES, EXTRA = range(4, 50), range(10 * LIMIT_CHOICES + 1, 10 * LIMIT_CHOICES + 11)
VALUES_PER_AXIS = range(3, 5)
# One pair of products in this many is held out.
PAIRS_PER_TEST_PAIR = 5
# A shop starts with so many kinds and gets a new one every so many pairs, so that products of one
# kind compete in a small shop too.
FIRST_KINDS, PAIRS_PER_NEW_KIND = 8, 6


class Product(NamedTuple):
    number: int
    kind: str
    """What is searched for, in two words."""
    attributes: tuple[str, str, str]
    """The first two are what a buyer of it wants."""
    shown: tuple[str, str]
    """The attributes its title names; its first bullet names the third."""
    brand: str
    uses: tuple[str, str]
    price: int
    """Whole dollars."""
    stars: int
    """Tenths of a star."""
    axes: tuple[Choice, ...]

    @property
    def id(self) -> str:
        return f"p{self.number}"

    @property
    def category(self) -> tuple[str, str, str]:
        department, aisle = AISLE_OF[self.kind]
        return department.name, aisle.name, self.kind

    @property
    def name(self) -> str:
        return f"{' '.join(self.shown)} {self.kind}"

    @property
    def title(self) -> str:
        return f"{self.brand} {self.name} for {' and '.join(self.uses)}"

    @property
    def title_nouns(self) -> frozenset[str]:
        return frozenset((self.brand, *self.kind.split(), *self.uses))

    @property
    def description(self) -> str:
        return f"this {self.kind} by {self.brand} is {' and '.join(self.shown)}."

    @property
    def bullets(self) -> tuple[str, ...]:
        (unshown,) = set(self.attributes) - set(self.shown)
        return (f"{unshown} {self.kind}", f"made for {' and '.join(self.uses)}", "box included")

    @property
    def document(self) -> str:
        """What the search sees: title, description, first bullet and options, as published."""
        offered = [f"{axis.name}: {', '.join(axis.values)}" for axis in self.axes]
        return " ".join((self.title, self.description, self.bullets[0], *offered))


class Goal(NamedTuple):
    """What a buyer wants: a product like this one, of these values, below this price."""

    product: Product
    values: tuple[str, ...]
    """One per axis of the product."""
    limit: int
    """Whole dollars."""

    @property
    def attributes(self) -> tuple[str, str]:
        return self.product.attributes[:2]

    @property
    def query(self) -> str:
        return f"{' '.join(self.attributes)} {self.product.kind}"

    def looks_met_by(self, other: Product) -> bool:
        """`other` meets the goal as far as a list of results shows: by title and price."""
        named = any(attribute in other.shown for attribute in self.attributes)
        return named and other.kind == self.product.kind and other.price <= self.limit

    def met_by(self, other: Product) -> bool:
        """`other` earns the full reward once the wanted values are chosen."""
        return (
            other.kind == self.product.kind
            and set(self.attributes) <= set(other.attributes)
            and other.price <= self.limit
            and all(any(value in axis.values for axis in other.axes) for value in self.values)
        )


@cache
def catalogue(count: int, option_axes: int) -> tuple[Product, ...]:
    """The first `count` products, each with this many option axes."""
    taken = set[tuple[str, frozenset[str]]]()
    products = list[Product]()
    while len(products) < count:
        pair = len(products) // 2
        random = Random(seed_of("webshop pair", pair))
        kind, attributes = _draw_wish(pair, random)
        while (kind, frozenset(attributes)) in taken:
            kind, attributes = _draw_wish(pair, random)
        taken.add((kind, frozenset(attributes)))
        cheap = random.choice(CHEAP_PRICES)
        for price in random.sample((cheap, cheap + random.choice(EXTRA)), 2):
            product = _draw_product(len(products), kind, attributes, price, random)
            products.append(product._replace(axes=product.axes[:option_axes]))
    return tuple(products[:count])


def _draw_wish(pair: int, random: Random) -> tuple[str, list[str]]:
    kind = random.choice(KINDS[: FIRST_KINDS + pair // PAIRS_PER_NEW_KIND])
    department, _ = AISLE_OF[kind]
    return kind, random.sample(department.attributes, 2)


def _draw_product(
    number: int, kind: str, attributes: Sequence[str], price: int, random: Random
) -> Product:
    department, aisle = AISLE_OF[kind]
    first, second = attributes
    third = random.choice([word for word in department.attributes if word not in attributes])
    return Product(
        number=number,
        kind=kind,
        attributes=(first, second, third),
        shown=random.choice(((first, second), (second, first), (third, first))),
        brand=random.choice(BRANDS),
        uses=(random.choice(USES[::2]), random.choice(USES[1::2])),
        price=price,
        stars=random.randint(25, 50),
        axes=tuple(_draw_values(axis, random) for axis in aisle.axes),
    )


def _draw_values(axis: Choice, random: Random) -> Choice:
    chosen = random.sample(range(len(axis.values)), random.choice(VALUES_PER_AXIS))
    return Choice(axis.name, tuple(axis.values[i] for i in sorted(chosen)))


def goals(products: Sequence[Product], split: Split, count: int) -> list[Goal]:
    """The first `count` products with values, in a fixed random order of all combinations."""
    wanted = [
        (product, values)
        for product in products
        if split_of(product) == split
        for values in combinations_of(*(axis.values for axis in product.axes))
    ]
    Random(seed_of("webshop goals", split, len(products))).shuffle(wanted)
    return [Goal(product, values, _limit(product, values)) for product, values in wanted[:count]]


def split_of(product: Product) -> Split:
    """One pair of every five is held out; the ids do not reveal which."""
    block, place = divmod(product.number // 2, PAIRS_PER_TEST_PAIR)
    held_out = Random(seed_of("webshop test pair", block)).randrange(PAIRS_PER_TEST_PAIR)
    return "test" if place == held_out else "train"


def _limit(product: Product, values: Sequence[str]) -> int:
    tens = [10 * (product.price // 10 + 1 + i) for i in range(LIMIT_CHOICES)]
    return max(Random(seed_of("webshop limit", product.number, *values)).sample(tens, 2))
