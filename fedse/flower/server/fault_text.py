"""What is said of a site that failed: the server's own words, by the numbers that arrive."""

from fedse.site.rules import (
    OTHER_EXPERIMENT,
    PAUSED,
    STALE,
    TOO_MANY_BYTES,
    TOO_MANY_ROUNDS,
    VETOED,
)
from fedse.site.socket_client import GARBLED, SILENT, UNREACHABLE

# In the server's words, by the number a site sent (fedse.errors, fedse.site.socket_client).
SITE_FAULTS = {
    1: "the site failed in an unforeseen way",
    2: "the site's settings are wrong",
    3: "the site's machine lacks something",
    4: "the site's environment broke its contract",
    5: "the site rejected the adapter it was sent",
    6: "the site refused the request: experiment, settings or base model differ from its own",
    7: "the site cannot read or write its buffer",
    8: "training went wrong at the site",
    10: "too many episodes broke at the site",
    UNREACHABLE: "the site's worker does not run, or not where its SuperNode looks for it",
    SILENT: "the site's worker did not answer in time",
    GARBLED: "the site's worker broke off the answer",
    PAUSED: "the site is paused",
    OTHER_EXPERIMENT: "the site's policy does not allow this experiment",
    TOO_MANY_ROUNDS: "the site's policy allows no further rounds",
    TOO_MANY_BYTES: "the site's policy allows fewer bytes than an adapter has",
    STALE: "the site has finished a later round already, and does not allow earlier ones",
    VETOED: "the site vetoed the adapter: it solves too few of its held-out games",
}
# By the code of Flower's error replies (flwr.common.constant.ErrorCode).
FLOWER_FAULTS = {
    1: "the site could not load the app: is fedse installed there?",
    2: "the app failed at the site, or is not the bundle the site agreed to",
    3: "the site went offline, or the line to it broke",
    4: "the site went offline, or the line to it broke",
    5: "the site went offline",
    7: "the site does not trust the app bundle",
    8: "the app was killed at the site",
}
SEE_SITE_LOG = "; the site's own worker.log says more"

# What a crash or a broken line looks like: who comes back can still answer in the same round.
PASSING_AT_SITE = frozenset({UNREACHABLE, GARBLED})
PASSING_IN_FLOWER = frozenset({3, 4, 5, 8})


def site_fault(number: int) -> str:
    return SITE_FAULTS.get(number, SITE_FAULTS[1]) + SEE_SITE_LOG


def flower_fault(code: int) -> str:
    """A site that merely was away has nothing about it in its log."""
    told = FLOWER_FAULTS.get(code, "the site failed")
    return told if code in PASSING_IN_FLOWER else told + SEE_SITE_LOG
