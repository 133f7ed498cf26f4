"""The best round of every block of the adapter, and an adapter that has each block of its best.

An isolated policy may be best long before the last round, and each role's at a round of its own.
Decided by the validation games that the sites play (`gate.episodes`), never by what is reported.
Blocks of different rounds have not acted together: play with such an adapter before you use it.
"""

from collections.abc import Mapping

from fedse.blocks import block_adapter, with_blocks
from fedse.errors import StoreError
from fedse.results.role_course import block_course, validations_of
from fedse.stats.rates import Rate
from fedse.store.run import Run
from fedse.types import Adapter


def best_rounds(run: Run) -> Mapping[str, tuple[int, Rate]]:
    """Block -> the round after which it did best, of equal ones the latest, and its success there.

    That is in the validation games of sites where a role of the block acts. Empty without blocks,
    and for blocks that no validation game was played with.
    """
    results = [*run.results()]
    validations = validations_of(run, results)
    if not any(validations.values()):
        return {}
    courses = block_course(results, run.config, validations)
    return {
        block: max(course.items(), key=lambda one: (one[1].value, one[0]))
        for block, course in courses.items()
        if course
    }


def best_adapter(run: Run) -> Adapter:
    """The newest adapter with every block as it was after its best round."""
    newest, best = run.adapter(run.committed or 0), best_rounds(run)
    if not best:
        raise StoreError(
            "no block of an adapter has played validation games, so none is known to be best",
            hint='set roles.policy = "isolated" and gate.episodes above 0',
        )
    parts = {
        block: block_adapter(run.adapter(index), block).vector for block, (index, _) in best.items()
    }
    return with_blocks(newest, parts)
