"""The shop's goods, search and reward: known answers, words that never collide, disjoint splits."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse_worlds.webshop.catalogue import Goal, Product, catalogue, goals, split_of
from fedse_worlds.webshop.pages import full_instruction, short_instruction
from fedse_worlds.webshop.reward import (
    EXACT,
    attribute_hits,
    option_hits,
    plain_color,
    published,
    reward,
    type_share,
)
from fedse_worlds.webshop.search import Index, terms_of
from fedse_worlds.webshop.words import AISLE_OF, DEPARTMENTS, KINDS, USES, Choice

TOWEL = Product(
    number=7,
    kind="bath towel",
    attributes=("soft", "woven", "thick"),
    shown=("soft", "woven"),
    brand="norvik",
    uses=("home", "trips"),
    price=26,
    stars=42,
    axes=(Choice("color", ("red", "blue", "navy blue")), Choice("size", ("large", "x-large"))),
)
GOAL = Goal(TOWEL, ("red", "large"), 40)
MUG = TOWEL._replace(
    kind="coffee mug",
    attributes=("ceramic", "glazed", "copper"),
    shown=("ceramic", "glazed"),
    brand="quessa",
    uses=("beach", "dorm"),
)
SHELF = MUG._replace(kind="book shelf")
SKETCHES = TOWEL._replace(kind="sketch book")
PINNED = (
    "pellwin brightening silky face cream for cabin and trips this face cream by pellwin is "
    "brightening and silky. vitamin rich face cream scent: rose, mint, lavender pack: 1 pack, "
    "2 pack, 4 pack"
)


# Two attributes, two options and the price: five parts.
@pytest.mark.parametrize(
    ("bought", "chosen", "earned", "strictly"),
    [
        (TOWEL, ("red", "large"), 1.0, 1.0),
        (TOWEL, ("large", "red"), 1.0, 1.0),
        (TOWEL, (), 3 / 5, 3 / 5),
        (TOWEL, ("red",), 4 / 5, 4 / 5),
        (TOWEL, ("red", "x-large"), 1.0, 4 / 5),
        (TOWEL, ("dark red", "small"), 4 / 5, 3 / 5),
        (TOWEL._replace(price=40), ("red", "large"), 1.0, 1.0),
        (TOWEL._replace(price=41), ("red", "large"), 4 / 5, 4 / 5),
        (TOWEL._replace(attributes=("plush", "woven", "thick"), shown=("woven", "thick")),
         ("red", "large"), 4 / 5, 4 / 5),
        # Same aisle, two levels in common: the right type.
        (TOWEL._replace(kind="hand towel", brand="quessa", uses=("beach", "dorm")),
         ("red", "large"), 1.0, 1.0),
        # One of five nouns, one level: 0.5 of the price alone.
        (MUG._replace(brand="norvik"), (), 0.5 * 1 / 5, 0.5 * 1 / 5),
        # Two of five nouns count as the type, whatever it is.
        (MUG._replace(brand="norvik", uses=("home", "dorm")), (), 1 / 5, 1 / 5),
        (MUG, ("red", "large"), 0.0, 0.0),
    ],
)  # fmt: skip
def test_known_rewards(
    bought: Product, chosen: tuple[str, ...], earned: float, strictly: float
) -> None:
    assert reward(bought, chosen, GOAL, published()) == pytest.approx(earned)
    assert reward(bought, chosen, GOAL, EXACT) == pytest.approx(strictly)


def test_known_types() -> None:
    many_nouns = TOWEL._replace(uses=USES[2:11])
    assert type_share(TOWEL, TOWEL) == 1.0
    assert type_share(SKETCHES, SHELF) == 0.5
    assert type_share(MUG._replace(brand="norvik", uses=("home", "trips")), many_nouns) == 0.1
    assert type_share(TOWEL._replace(kind="bed sheet"), MUG) == 0.0


def test_an_attribute_named_in_the_texts_counts() -> None:
    goal = Goal(TOWEL._replace(attributes=("trips", "ome and", "thick")), (), 40)
    assert attribute_hits(TOWEL, goal, EXACT) == 2
    assert attribute_hits(MUG, goal, EXACT) == 0


@given(st.data())
def test_the_reward_is_full_exactly_when_everything_is_right(data: st.DataObject) -> None:
    axes = data.draw(st.integers(0, 2))
    some = catalogue(60, axes)
    goal = data.draw(st.sampled_from(goals(some, "train", 50)))
    bought = data.draw(st.sampled_from([*filter(goal.met_by, some), *some[:20]]))
    offered = [*goal.values, *(v for axis in bought.axes for v in axis.values)] or ["none"]
    chosen = data.draw(st.one_of(st.just(goal.values), st.lists(st.sampled_from(offered))))
    for agreement in (published(), EXACT):
        earned = reward(bought, chosen, goal, agreement)
        parts = (type_share(bought, goal.product), attribute_hits(bought, goal, agreement),
                 option_hits(chosen, goal, agreement), bought.price <= goal.limit)  # fmt: skip
        assert 0.0 <= earned <= 1.0
        assert (earned == 1.0) == (parts == (1.0, 2, len(goal.values), True))
        if goal.met_by(bought) and set(goal.values) <= set(chosen):
            assert earned == 1.0


def test_words_do_not_run_into_each_other() -> None:
    alike = published()
    assert [len(department.aisles) for department in DEPARTMENTS] == [2] * 8
    for department in DEPARTMENTS:
        assert len(set(department.attributes)) == 24
        assert not [p for p in combinations(department.attributes, 2) if alike.attributes(*p)]
        for aisle in department.aisles:
            first, second = aisle.axes
            assert not set(first.values) & set(second.values)
            for one, other in (p for axis in aisle.axes for p in combinations(axis.values, 2)):
                known = plain_color(one) == plain_color(other) or (one, other) == (
                    "large",
                    "x-large",
                )
                assert alike.options(one, other) == known, (one, other)
    assert set(KINDS) == set(AISLE_OF)
    assert len(KINDS) == 48
    assert all(len(kind.split()) == 2 and not set(kind.split()) & set(USES) for kind in KINDS)


def test_a_product_has_its_own_attributes_and_no_other() -> None:
    products = catalogue(300, 2)
    assert len(products) == 300
    for product in products:
        assert len(AISLE_OF[product.kind][0].attributes) == 24
        for word in AISLE_OF[product.kind][0].attributes:
            goal = Goal(product._replace(attributes=(word, word, word)), (), 0)
            hit = attribute_hits(product, goal, published()) == 2
            assert hit == (word in product.attributes), (product.title, word)


@settings(max_examples=10, deadline=None)
@given(st.integers(60, 300), st.integers(0, 2))
def test_a_small_shop_is_the_beginning_of_a_large_one(count: int, axes: int) -> None:
    assert catalogue(count, axes) == catalogue(300, axes)[:count]


def test_the_catalogue_is_the_same_for_ever() -> None:
    assert catalogue(60, 2)[12].document == PINNED


def test_the_largest_shop_can_be_stocked() -> None:
    assert len({product.title for product in catalogue(10_000, 1)}) > 9_000


@pytest.mark.parametrize("axes", [0, 1, 2])
def test_the_splits_share_no_product_and_no_wish(axes: int) -> None:
    some = catalogue(1000, axes)
    train, test = (goals(some, split, 10**6) for split in ("train", "test"))
    assert {g.product for g in train} | {g.product for g in test} == set(some)
    assert not {g.product for g in train} & {g.product for g in test}
    wishes = [{(g.product.kind, frozenset(g.attributes)) for g in side} for side in (train, test)]
    assert not wishes[0] & wishes[1]
    assert len({full_instruction(g) for g in train}) == len(train)
    assert sum(split_of(product) == "test" for product in some) == 200


def test_a_limit_is_one_of_the_next_four_tens() -> None:
    found = list(goals(catalogue(200, 1), "train", 10**6))
    assert len(found) == 554
    for goal in found:
        assert goal.limit % 10 == 0
        assert 10 < goal.limit - 10 * (goal.product.price // 10) <= 40


def test_known_instructions() -> None:
    assert full_instruction(GOAL) == (
        "Find me soft, woven bath towel with color: red, and size: large, "
        "and price lower than 40.00 dollars"
    )
    assert short_instruction(GOAL) == "buy soft woven bath towel red large under 40"
    assert full_instruction(Goal(TOWEL._replace(axes=()), (), 40)) == (
        "Find me soft, woven bath towel, and price lower than 40.00 dollars"
    )


def test_search_finds_the_best_first_and_ties_by_position() -> None:
    index = Index(["red cup", "blue cup", "red pot", "cups and cups", "red cup"])
    assert index.best("a RED cup!", 9)[:2] == (0, 4)
    assert set(index.best("cups", 9)) == {0, 1, 3, 4}
    assert index.best("blue or red", 1) == (1,)
    assert index.best("", 9) == index.best("?!", 9) == index.best("green", 9) == ()


@given(st.text())
def test_terms_are_plain_few_and_short(text: str) -> None:
    terms = terms_of(text)
    assert len(terms) <= 64
    assert all(term.isascii() and term.isalnum() and len(term) <= 32 for term in terms)
