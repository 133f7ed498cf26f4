"""Which experiments a tree of regions can run: those whose merge is a sum."""

from collections.abc import Mapping

from fedse.aggregate.merge import WEIGHTS
from fedse.config.schema import Config
from fedse.errors import ConfigError


def regions_of(config: Config) -> Mapping[str, tuple[str, ...]]:
    """The clients of every region, all in sorted order; a client without a region is refused."""
    found: dict[str, list[str]] = {}
    for client in config.clients:
        if client.region is None:
            raise ConfigError(
                f"client {client.name} has no region, in a tree every client has one",
                hint='add region = "NAME" to its [[clients]] entry, or use another engine',
            )
        found.setdefault(client.region, []).append(client.name)
    return {region: tuple(sorted(found[region])) for region in sorted(found)}


def require_composable(config: Config) -> None:
    """Every rule of the experiment can be computed from sums of regions, exactly."""
    settings = config.aggregate
    if settings.type not in WEIGHTS:
        kinds = " or ".join(WEIGHTS)
        raise ConfigError(
            f"aggregate.type = {settings.type!r} needs every adapter in one place, "
            f"a tree of regions has their sums: expected {kinds}",
            hint='set aggregate.type = "mean", or use another engine',
        )
    if settings.sum != "exact":
        raise ConfigError(
            f"aggregate.sum = {settings.sum!r} rounds in the order of all clients' names, "
            'which sums of regions cannot follow: expected "exact"',
            hint='set aggregate.sum = "exact"',
        )
    if settings.goal:
        raise ConfigError(
            f"aggregate.goal = {settings.goal} closes a round at its first replies, "
            "a region answers for all its sites: expected 0",
            hint="set aggregate.goal = 0; aggregate.deadline bounds the wait",
        )
    if config.gate.episodes and config.gate.liars and config.gate.accuse:
        raise ConfigError(
            "gate.accuse = true compares votes with each other, a tree of regions has their sums",
            hint="set gate.accuse = false; votes are still left out where success falls",
        )
    if config.buffer.pooled:
        raise ConfigError(
            "buffer.pooled = true trains on all clients' data in one place, a tree keeps it apart",
            hint="use the engine local",
        )
