"""What the sites of a region agree on: what their region agreed on with the coordinator above."""

from collections.abc import Sequence

from fedse.config.schema import ClientSection, Config

DEADLINE_SHARE = 0.75
"""What a region leaves its sites of the time that the coordinator above waits for it."""


def region_config(above: Config, clients: Sequence[ClientSection]) -> Config:
    """The experiment inside a region: the same settings, with the region's own sites.

    What decides on an adapter is decided above; here no number of answers is too small.
    """
    limits = above.aggregate
    changes: dict[str, object] = {
        "regions": {},
        "min_clients": 1,
        "deadline": DEADLINE_SHARE * limits.deadline,
    }
    if limits.secure:
        # So that the sums of all regions are on one grid, which holds their sum.
        changes["secure_members"] = sum(limits.regions.values())
    aggregate = limits.model_copy(update=changes)
    inside = above.model_copy(update={"aggregate": aggregate, "clients": tuple(clients)})
    # Checked as a file would be.
    return Config.model_validate(inside.model_dump())
