"""Which of the replies that arrived can be used, before their numbers are looked at."""

import hashlib
from collections.abc import Collection
from typing import NamedTuple

from fedse.aggregate.factors import with_resting_factor
from fedse.committed import Exclusion
from fedse.config.schema import Config
from fedse.errors import AdapterRejected
from fedse.protocol import Delivery
from fedse.types import Adapter, AdapterSpec, ClientStats

LARGEST_ANNOUNCEMENT = 4096
"""Bytes of signed keys in the place of an adapter; they have some 600."""


class ExpectedReply(NamedTuple):
    """What a reply is held against."""

    current: Adapter
    returned: AdapterSpec
    """The layout of what is sent back: the whole adapter, or the factor that is learned."""


def exclusion_of(
    config: Config,
    delivery: Delivery,
    answered: Collection[str],
    expected: ExpectedReply,
    stale: Collection[str] = (),
) -> Exclusion | None:
    """Why a delivery that arrived cannot be used; None = it can."""
    client, stats, adapter, _ = delivery
    if client not in config.members:
        return Exclusion(client=client, kind="failed", reason="is not a member of this experiment")
    if client in answered:
        return Exclusion(client=client, kind="failed", reason="answered twice in one round")
    broken = ""
    if _too_many(stats, config):
        broken = "counts more episodes than it was asked to play"
    elif adapter is not None and config.aggregate.secure:
        # Keys for a sum; whose they are is checked when it begins.
        broken = "" if len(adapter) <= LARGEST_ANNOUNCEMENT else "its keys are too long"
    elif adapter is not None:
        broken = _misfit(adapter, expected, stale)
    return Exclusion(client=client, kind="rejected", reason=broken) if broken else None


def _too_many(stats: ClientStats, config: Config) -> bool:
    asked = config.eval.episodes, config.eval.home
    counted = (
        (stats.played, config.rollout.episodes),
        *zip((stats.eval_played, stats.home_played), asked, strict=True),
        *zip((stats.personal_played, stats.personal_home_played), asked, strict=True),
    )
    return any(played > most for played, most in counted)


def _misfit(adapter: bytes, expected: ExpectedReply, stale: Collection[str]) -> str:
    """Why the bytes are no reply of this round, before their numbers are looked at."""
    current, returned = expected
    if len(adapter) != returned.nbytes:
        return f"adapter of {len(adapter)} bytes, expected {returned.nbytes}"
    try:
        whole = with_resting_factor(adapter, returned, current)
    except AdapterRejected as rejection:
        return str(rejection)
    if hashlib.sha256(whole).hexdigest() in stale:
        return "sent back the global adapter of an earlier round"
    return ""
