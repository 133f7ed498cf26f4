"""Write recipes.txt of fedse_worlds.textcraft, the recipe book of a small town's workshops.

    python scripts/make_recipes.py

The book is made up for this project: every trade works the same way on each of its materials, so
few words name many items. The same script gives the same bytes.
"""

from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "plugins" / "fed-se-worlds" / "fedse_worlds"
OUT = PACKAGE / "textcraft" / "recipes.txt"

# Trade: its materials, then what it makes of a material m, simplest first. `any x` is met by any
# item called `<material> x`.
TRADES = {
    "joiner": (
        "ash elm pine teak",
        """
        2 m board using 1 m
        3 m peg using 1 m
        1 m bowl using 2 m
        1 m tray using 2 m board, 1 glue
        1 m rack using 1 m board, 2 nail
        1 m toy using 2 m peg, 1 glue
        1 m comb using 1 m board, 1 wax
        1 m stand using 1 m rack, 1 m bowl
        1 m desk using 1 m tray, 2 m peg
        1 m stall using 1 m desk, 1 m rack
        """,
    ),
    "weaver": (
        "wool flax silk hemp",
        """
        2 m yarn using 1 m
        1 m felt using 3 m
        1 m cloth using 2 m yarn
        1 m cord using 1 m yarn, 1 wax
        1 m sock using 2 m yarn, 1 pin
        1 m hat using 1 m felt, 1 pin
        1 m bag using 1 m cloth, 1 m cord
        1 m shirt using 1 m cloth, 2 button
        1 m coat using 1 m shirt, 1 m felt
        1 m pack using 1 m bag, 1 buckle
        """,
    ),
    "baker": (
        "rye oat corn rice",
        """
        1 m flour using 2 m
        1 m mash using 1 m, 1 water
        1 m dough using 1 m flour, 1 water
        2 m wafer using 1 m flour, 1 egg
        1 m soup using 1 m mash, 1 salt
        1 m loaf using 1 m dough, 1 salt
        2 m bun using 1 m dough, 1 sugar
        1 m toast using 1 m loaf, 1 honey
        1 m lunch using 1 m bun, 1 any cheese
        """,
    ),
    "orchard": (
        "plum pear fig lime",
        """
        1 m juice using 2 m
        1 m jam using 3 m, 1 sugar
        1 m ice using 1 m juice, 1 snow
        1 m syrup using 1 m juice, 2 sugar
        1 m sauce using 1 m jam, 1 salt
        1 m candy using 1 m syrup, 1 salt
        1 m tart using 1 m jam, 1 any dough
        1 m platter using 1 m tart, 1 any tray
        """,
    ),
    "smith": (
        "tin zinc lead brass",
        """
        1 m plate using 2 m
        2 m wire using 1 m
        1 m cup using 1 m plate, 1 rivet
        1 m pan using 2 m plate, 1 nail
        1 m ring using 1 m wire, 1 pearl
        1 m can using 1 m plate, 1 glue
        1 m lamp using 1 m can, 1 wick
        1 m bell using 1 m cup, 1 m wire
        1 m beacon using 1 m lamp, 1 glass
        """,
    ),
    "potter": (
        "clay marl chalk slate",
        """
        1 m dust using 1 m
        1 m slab using 2 m
        1 m paste using 1 m dust, 1 water
        2 m tile using 1 m slab, 1 sand
        1 m mold using 1 m dust, 1 wax
        1 m pot using 2 m paste
        1 m jar using 1 m paste, 1 cork
        1 m vase using 1 m pot, 1 glaze
        1 m stove using 1 m pot, 2 m tile
        """,
    ),
    "herbalist": (
        "mint sage dill rue",
        """
        1 m tea using 1 m, 1 water
        1 m oil using 3 m
        1 m balm using 1 m oil, 1 wax
        1 m soap using 1 m oil, 1 lye
        1 m tonic using 1 m tea, 1 honey
        1 m kit using 1 m balm, 1 m tonic
        1 m bath using 1 m soap, 1 any cloth
        1 m gift using 1 m kit, 1 any cord
        """,
    ),
    "dairy": (
        "cow goat ewe yak",
        """
        1 m curd using 2 m milk
        1 m cream using 1 m milk, 1 sugar
        1 m cheese using 1 m curd, 1 salt
        1 m custard using 1 m cream, 1 egg
        1 m fondue using 1 m cheese, 1 wine
        1 m trifle using 1 m custard, 2 berry
        1 m dinner using 1 m fondue, 1 any loaf
        """,
    ),
    "painter": (
        "red blue green gray",
        """
        1 m ink using 2 m root
        1 m wash using 1 m root, 1 water
        1 m paint using 1 m ink, 1 resin
        1 m pen using 1 m ink, 1 quill
        1 m stamp using 1 m ink, 1 cork
        1 m sign using 1 m paint, 1 any board
        1 m flag using 1 m paint, 1 any cloth
        1 m banner using 1 m flag, 1 nail
        """,
    ),
    "bookbinder": (
        "reed bark rag straw",
        """
        1 m pulp using 2 m
        1 m mat using 3 m
        2 m paper using 1 m pulp, 1 water
        1 m mask using 1 m pulp, 1 glue
        1 m card using 1 m paper, 1 glue
        1 m fan using 1 m paper, 2 pin
        1 m book using 2 m paper, 1 thread
        1 m album using 1 m book, 1 m card
        1 m atlas using 2 m book, 1 buckle
        """,
    ),
    "jeweler": (
        "agate opal jade onyx",
        """
        2 m bead using 1 m
        1 m gem using 1 m, 1 sand
        1 m chain using 2 m bead, 1 thread
        1 m charm using 1 m gem, 1 thread
        1 m clasp using 1 m gem, 1 rivet
        1 m belt using 1 m chain, 1 buckle
        1 m tiara using 1 m clasp, 1 m bead
        1 m crown using 1 m tiara, 1 velvet
        """,
    ),
}


def lines() -> Iterator[str]:
    """Each recipe of each trade once per material."""
    for materials, made in TRADES.values():
        for material in materials.split():
            for recipe in made.strip().splitlines():
                words = recipe.replace(",", " ,").split()
                said = " ".join(material if word == "m" else word for word in words)
                yield said.replace(" ,", ",")


def main() -> None:
    """The book is written anew, sorted by the name of what is made."""
    book = sorted(lines(), key=lambda line: line.partition(" ")[2])
    OUT.write_text("\n".join(book) + "\n", "utf-8")
    print(f"{len(book)} recipes")


if __name__ == "__main__":
    main()
