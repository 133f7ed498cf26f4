"""The words the synthetic shop is made of; all invented or everyday, none from a real catalogue.

What the rest relies on (tests/envs/test_webshop.py): a kind of product has two words; within a
department no attribute matches another; within an axis no two values match, except that the
published rule takes `large` for `x-large` and shades of one colour for each other.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Choice(NamedTuple):
    """Something a buyer chooses about a product."""

    name: str
    values: Sequence[str]


class Aisle(NamedTuple):
    name: str
    kinds: Sequence[str]
    axes: tuple[Choice, Choice]


class Department(NamedTuple):
    name: str
    aisles: Sequence[Aisle]
    attributes: Sequence[str]


# The colours a shade counts as; a value that contains one of these words is that colour.
BASE_COLORS = (
    "black", "white", "grey", "red", "blue", "green", "yellow", "pink", "purple", "orange",
    "brown", "beige",
)  # fmt: skip

BRANDS = (
    "norvik", "taluma", "brenwick", "oskella", "perrano", "zindal", "marlowen", "quessa",
    "ildora", "fenmoor", "ravessa", "tolvane", "hestrel", "calvora", "dunmire", "elowyn",
    "jorvane", "kestova", "lumerra", "ashbourn", "pellwin", "sorrelby", "varneth", "wrenlow",
)  # fmt: skip

USES = (
    "home", "trips", "school", "garden", "cabin", "hotels", "beach", "parties", "studio", "dorm",
    "family", "holidays", "work", "weekends", "guests", "neighbors",
)  # fmt: skip

_COLOR = Choice("color", (*BASE_COLORS, "navy blue", "sky blue", "dark green"))
_SCENT = Choice("scent", ("rose", "mint", "vanilla", "citrus", "lavender", "unscented"))
_FLAVOR = Choice("flavor", ("honey", "chili", "cocoa", "sea salt", "berry", "lemon"))
_SIZE = Choice("size", ("small", "medium", "large", "x-large"))
_BED_SIZE = Choice("size", ("twin", "full", "queen", "king"))
_SHOE_SIZE = Choice("size", ("6", "7", "8", "9", "10", "11"))
_WIDTH = Choice("size", ("8 in", "10 in", "12 in", "14 in"))
_VOLUME = Choice("volume", ("8 oz", "12 oz", "20 oz", "32 oz"))
_WEIGHT = Choice("weight", ("1 kg", "2 kg", "3 kg", "5 kg"))
_PACK = Choice("pack", ("1 pack", "2 pack", "4 pack", "6 pack"))
_PLUG = Choice("plug", ("us", "uk", "eu", "au"))
_WARRANTY = Choice("warranty", ("1 year", "2 year", "3 year", "5 year"))
_RULING = Choice("ruling", ("lined", "dotted", "plain", "grid"))
_WOOD = Choice("wood", ("oak", "walnut", "pine", "maple"))

DEPARTMENTS: Sequence[Department] = (
    Department(
        "home",
        (
            Aisle("bath", ("bath towel", "hand towel", "bath mat"), (_COLOR, _SIZE)),
            Aisle("bedding", ("bed sheet", "pillow case", "throw blanket"), (_COLOR, _BED_SIZE)),
        ),
        (
            "soft", "absorbent", "washable", "lint free", "odor free", "quick dry", "plush",
            "breathable", "hypoallergenic", "reversible", "woven", "striped", "quilted", "fringed",
            "hotel grade", "fade proof", "double sided", "organic", "thick", "airy",
            "embroidered", "insulated", "wrinkle free", "cozy",
        ),
    ),
    Department(
        "kitchen",
        (
            Aisle("drinkware", ("coffee mug", "water bottle", "travel cup"), (_COLOR, _VOLUME)),
            Aisle("cookware", ("frying pan", "soup pot", "baking tray"), (_COLOR, _WIDTH)),
        ),
        (
            "stackable", "leakproof", "nonstick", "enamel", "ceramic", "stainless",
            "shatterproof", "double wall", "dishwasher safe", "oven safe", "drip free",
            "heat resistant", "cast iron", "handmade", "copper", "glazed", "easy pour",
            "rust proof", "sealed", "vacuum", "induction ready", "engraved", "ergonomic",
            "lead free",
        ),
    ),
    Department(
        "clothing",
        (
            Aisle("tops", ("polo shirt", "rain jacket", "knit sweater"), (_COLOR, _SIZE)),
            Aisle(
                "footwear", ("running shoes", "hiking boots", "house slippers"),
                (_COLOR, _SHOE_SIZE),
            ),
        ),
        (
            "slim fit", "waterproof", "machine wash", "moisture wicking", "fleece lined",
            "stretchy", "vegan", "zip up", "recycled", "cushioned", "wide cut", "memory foam",
            "padded", "laced", "thermal", "packable", "seamless", "sun blocking", "stain proof",
            "classic", "hand sewn", "ribbed", "vented", "casual",
        ),
    ),
    Department(
        "electronics",
        (
            Aisle("audio", ("wireless earbuds", "desk speaker", "game headset"),
                  (_COLOR, _WARRANTY)),
            Aisle("power", ("phone charger", "power bank", "night lamp"), (_COLOR, _PLUG)),
        ),
        (
            "bluetooth", "noise cancelling", "fast charging", "foldable", "compact", "dimmable",
            "voice control", "long lasting", "low latency", "magnetic", "rechargeable",
            "sweatproof", "surge protected", "braided", "ultra thin", "aluminum", "quiet",
            "shockproof", "auto off", "solar", "backlit", "dual port", "clip on", "high fidelity",
        ),
    ),
    Department(
        "beauty",
        (
            Aisle("skin care", ("face cream", "hand lotion", "lip balm"), (_SCENT, _PACK)),
            Aisle("hair care", ("shampoo bar", "hair mask", "hair serum"), (_SCENT, _VOLUME)),
        ),
        (
            "paraben free", "cruelty free", "alcohol free", "sulfate free", "fast absorbing",
            "deep moisture", "anti aging", "gentle", "soothing", "plant based", "matte",
            "brightening", "repairing", "firming", "nourishing", "clinic tested", "non greasy",
            "vitamin rich", "mineral", "whipped", "overnight", "sensitive", "hydrating",
            "silky",
        ),
    ),
    Department(
        "grocery",
        (
            Aisle("snacks", ("trail mix", "fruit bar", "rice cracker"), (_FLAVOR, _PACK)),
            Aisle("drinks", ("green tea", "ground coffee", "oat drink"), (_FLAVOR, _WEIGHT)),
        ),
        (
            "gluten free", "sugar free", "dairy free", "soy free", "low sodium", "high protein",
            "keto friendly", "certified organic", "non gmo", "kosher", "plant made", "crunchy",
            "fair trade", "high fiber", "low carb", "roasted", "unsweetened", "caffeine free",
            "small batch", "freeze dried", "sprouted", "whole grain", "ready made", "artisan",
        ),
    ),
    Department(
        "sports",
        (
            Aisle("fitness", ("yoga mat", "jump rope", "gym bag"), (_COLOR, _SIZE)),
            Aisle("camping", ("camp chair", "dome tent", "sleeping bag"), (_COLOR, _WEIGHT)),
        ),
        (
            "lightweight", "collapsible", "non slip", "tear proof", "adjustable", "ventilated",
            "weatherproof", "reinforced", "extra thick", "quick setup", "reflective",
            "water repellent", "heavy duty", "carry strap", "portable", "high density",
            "textured", "latex free", "eco friendly", "windbreaking", "mildew free", "pro grade",
            "two tone", "knotless",
        ),
    ),
    Department(
        "office",
        (
            Aisle("paper", ("note pad", "sketch book", "wall planner"), (_COLOR, _RULING)),
            Aisle("furniture", ("swivel chair", "book shelf", "file cabinet"), (_COLOR, _WOOD)),
        ),
        (
            "sturdy", "modern", "slimline", "minimalist", "vintage", "space saving", "premium",
            "polished", "durable", "handcrafted", "bamboo", "upcycled", "acid free",
            "scratch resistant", "student grade", "child safe", "rounded edge", "matte finish",
            "leather look", "water sealed", "contract grade", "low glare", "numbered", "patterned",
        ),
    ),
)  # fmt: skip

AISLE_OF: Mapping[str, tuple[Department, Aisle]] = {
    kind: (department, aisle)
    for department in DEPARTMENTS
    for aisle in department.aisles
    for kind in aisle.kinds
}

# Departments in turn, so that even a small shop has several.
KINDS: Sequence[str] = tuple(
    department.aisles[i % 2].kinds[i // 2] for i in range(6) for department in DEPARTMENTS
)
