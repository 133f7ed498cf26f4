"""Why a site failed, in the server's own words, by the number that arrived."""

from fedse.faults import Fault

# By the code of Flower's error replies (flwr.common.constant.ErrorCode).
FLOWER_FAULTS = {
    1: "the site could not load the app: is fedse installed there?",
    2: "the app failed at the site, or is not the bundle the site agreed to",
    3: "the site went offline, or its connection broke",
    4: "the site went offline, or its connection broke",
    5: "the site went offline",
    7: "the site does not trust the app bundle",
    8: "the app was killed at the site",
}
SEE_SITE_LOG = "; the site's own worker.log says more"

# What a crash or a broken connection looks like: a site that comes back can still answer in time.
PASSING_IN_FLOWER = frozenset({3, 4, 5, 8})


def site_fault(fault: Fault) -> str:
    return fault.words + SEE_SITE_LOG


def flower_fault(code: int) -> str:
    """The reason for an error code; a site that was only away has nothing about it in its log."""
    reason = FLOWER_FAULTS.get(code, "the site failed")
    return reason if code in PASSING_IN_FLOWER else reason + SEE_SITE_LOG
