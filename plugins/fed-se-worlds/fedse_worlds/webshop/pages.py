"""The pages of the shop: which button leads where, and what a page says.

The page graph and the button names are the published ones. A page knows the search that led to
it; the values chosen belong to the page of one product, so every way back to the results or to
the search forgets them.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from fedse_worlds.webshop.catalogue import Goal, Product

BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
SEPARATOR = " [SEP] "

Detail = Literal["Description", "Features", "Reviews"]
Place = Literal["search", "results", "item", Detail, "bought"]
DETAILS: tuple[Detail, ...] = ("Description", "Features", "Reviews")


class Page(NamedTuple):
    """Where the buyer is."""

    place: Place = "search"
    query: str = ""
    hits: tuple[Product, ...] = ()
    """All results of the search."""
    number: int = 0
    """Of the page of results, from 0."""
    size: int = 10
    """Results per page."""
    product: Product | None = None
    chosen: tuple[tuple[str, str], ...] = ()
    """Axis and value, in the order of the product's axes."""
    numbered: bool = False
    """A result is opened by its place on the page, from 1, and not by its product's id."""

    @property
    def shown_hits(self) -> tuple[Product, ...]:
        return self.hits[self.number * self.size : (self.number + 1) * self.size]

    @property
    def labels(self) -> Mapping[str, Product]:
        """The results of the page by the name of their button, in the order shown."""
        named = enumerate(self.shown_hits, start=1)
        return {str(place) if self.numbered else hit.id: hit for place, hit in named}


def buttons(page: Page) -> Mapping[str, Page]:
    """Every button of a page, in the order shown, and the page it leads to."""
    start = Page(size=page.size, numbered=page.numbered)
    if page.place == "search":
        return {}
    if page.place == "results":
        turned = _page_turns(page)
        opened = {
            label: page._replace(place="item", product=hit) for label, hit in page.labels.items()
        }
        return {BACK: start, **turned, **opened}
    if page.place == "item":
        results = page._replace(place="results", product=None, chosen=())
        details: dict[str, Page] = {place: page._replace(place=place) for place in DETAILS}
        bought = page._replace(place="bought")
        return {BACK: start, PREVIOUS: results, **_choices(page), **details, BUY: bought}
    return {BACK: start, PREVIOUS: page._replace(place="item")}


def _page_turns(page: Page) -> Mapping[str, Page]:
    turned = dict[str, Page]()
    if page.number > 0:
        turned[PREVIOUS] = page._replace(number=page.number - 1)
    if (page.number + 1) * page.size < len(page.hits):
        turned[NEXT] = page._replace(number=page.number + 1)
    return turned


def _choices(page: Page) -> Mapping[str, Page]:
    axes, chosen = item_of(page).axes, dict(page.chosen)
    choices = dict[str, Page]()
    for axis in axes:
        for value in axis.values:
            after = chosen | {axis.name: value}
            ordered = tuple((a.name, after[a.name]) for a in axes if a.name in after)
            choices[value] = page._replace(chosen=ordered)
    return choices


def item_of(page: Page) -> Product:
    """The product a page is about."""
    assert page.product is not None, f"page {page.place} has no product"
    return page.product


def full_instruction(goal: Goal) -> str:
    """The published sentence about attributes, kind, options and price."""
    axes = goal.product.axes
    wanted = [f"{axis.name}: {value}" for axis, value in zip(axes, goal.values, strict=True)]
    options = f" with {', and '.join(wanted)}" if wanted else ""
    what = f"{', '.join(goal.attributes)} {goal.product.kind}{options}"
    return f"Find me {what}, and price lower than {goal.limit}.00 dollars"


def short_instruction(goal: Goal) -> str:
    """The same in few tokens."""
    return " ".join(("buy", goal.query, *goal.values, "under", str(goal.limit)))


def full_view(page: Page, goal: Goal) -> str:
    """All texts of the page with the published separator, the instruction first."""
    texts = ["Instruction:", full_instruction(goal)]
    if page.place == "search":
        texts.append("Search")
    elif page.place == "results":
        texts += [BACK, f"Page {page.number + 1} (Total results: {len(page.hits)})"]
        texts += _page_turns(page)
        for label, hit in page.labels.items():
            texts += [label, hit.title.title(), f"${hit.price}.00"]
    elif page.place == "item":
        texts += [BACK, PREVIOUS, *_full_item(page), *DETAILS, BUY]
    else:
        texts += [BACK, PREVIOUS, *_details(page)]
    return SEPARATOR.join(texts)


def _full_item(page: Page) -> list[str]:
    item = item_of(page)
    texts = [text for axis in item.axes for text in (axis.name, *axis.values)]
    # Published only in the "rich" text mode; without it the page does not show what was clicked.
    texts += [f"You have chosen {name}: {value}" for name, value in page.chosen]
    return [*texts, item.title.title(), f"Price: ${item.price}.00", _rating(item)]


def _rating(item: Product) -> str:
    return f"Rating: {item.stars / 10}"


def _details(page: Page) -> tuple[str, ...]:
    item = item_of(page)
    if page.place == "Description":
        return (item.description.capitalize(),)
    if page.place == "Features":
        return tuple(bullet.capitalize() for bullet in item.bullets)
    return (f"{_rating(item)} of 5",)


def short_view(page: Page, goal: Goal) -> str:
    """What changes from page to page, in few tokens; the instruction appears once, at the start.

    An axis with a value chosen shows that value alone.
    """
    if page.place == "search":
        return short_instruction(goal)
    if page.place == "results":
        hits = [f"{label} {hit.name} {hit.price}" for label, hit in page.labels.items()]
        hits = hits or ["nothing"]
        return "; ".join([*hits, *(["more"] if NEXT in _page_turns(page) else [])])
    if page.place == "item":
        item, chosen = item_of(page), dict(page.chosen)
        axes = [
            f"{axis.name} = {chosen[axis.name]}"
            if axis.name in chosen
            else f"{axis.name} {', '.join(axis.values)}"
            for axis in item.axes
        ]
        named = item.name if page.numbered else item.id
        return "; ".join([f"item {named} {item.price}", *axes])
    return "; ".join(_details(page)).lower()
