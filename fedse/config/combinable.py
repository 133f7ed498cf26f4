"""Which settings of different sections go together; others are refused before anything starts."""

import json
from typing import Any

from fedse.config.aggregation import AGGREGATES
from fedse.config.training import LOSSES

LEAST_MEMBERS = 3
"""Of a secure sum: with two members, each could subtract its own update from it."""

ParsedConfig = Any
"""A `Config`; the schema imports this module, so it cannot be named here."""


def require_combinable(config: ParsedConfig) -> None:
    """The settings have a meaning together; the first pair that has none is a ValueError."""
    refused = {
        **_merging(config),
        **(_secure(config) if config.aggregate.secure else {}),
        **(_private(config) if config.privacy.on else {}),
    }
    for reason, found in refused.items():
        if found:
            raise ValueError(reason)


def _merging(config: ParsedConfig) -> dict[str, bool]:
    refused = {
        'trainer.precision = "4bit" needs engine.type = "vllm"': config.engine.type == "in-process"
        and config.trainer.precision == "4bit",
    }
    variants = {
        f'aggregate.type = "{config.aggregate.type}"': AGGREGATES.variant(config.aggregate.type),
        f'train.loss = "{config.train.loss}"': LOSSES.variant(config.train.loss),
    }
    for name, variant in variants.items():
        for key, value in getattr(variant, "needs", {}).items():
            section, _, setting = key.partition(".")
            found = getattr(getattr(config, section), setting)
            refused[f"{name} needs {key} = {json.dumps(value)}"] = found != value
    return refused


def against_free_places(config: ParsedConfig) -> str:
    """The setting with which no place may stay free, and why; empty = there is none."""
    reason = "aggregate.secure: more than two thirds of all members must answer"
    return reason if config.aggregate.secure else ""


def _secure(config: ParsedConfig) -> dict[str, bool]:
    """What needs single updates cannot be had where the server sees only their sum."""
    rules, needs = config.aggregate, "aggregate.secure needs"
    needed = max(2 * len(config.clients) // 3 + 1, LEAST_MEMBERS)
    return {
        f'{needs} aggregate.type = "mean"': rules.type != "mean",
        f'{needs} aggregate.clip = "none": members shorten their own updates to '
        "aggregate.secure_bound": rules.clip != "none",
        f"{needs} aggregate.goal = 0: every member is asked": rules.goal > 0,
        f"{needs} gate.liars = 0: to leave single votes out would tell them": config.gate.episodes
        > 0
        and config.gate.liars > 0,
        f"{needs} buffer.pooled = false": config.buffer.pooled,
        f"{needs} all clients from round 1 on": any(one.joins > 1 for one in config.clients),
        f"{needs} {needed} clients or more": len(config.clients) < needed,
    }


def _private(config: ParsedConfig) -> dict[str, bool]:
    """What would let an adapter that leaves tell more about a unit than the noise allows."""
    needs = "privacy.epsilon needs"
    return {
        f'{needs} train.loss = "sft": with another, the gradient of an episode may depend on '
        "others": config.train.loss != "sft",
        f'{needs} train.batches = "shuffled": a step is a random sample of '
        "units": config.train.batches != "shuffled",
        f'{needs} select.type = "success" or "all": with others, one unit decides whether others '
        "are learned from": config.select.type not in ("success", "all"),
        f'{needs} aggregate.type other than "weighted", or privacy.counts = true: the weight is a '
        "count": config.aggregate.type == "weighted" and not config.privacy.counts,
        f"{needs} buffer.pooled = false": config.buffer.pooled,
        f"{needs} trainer.processes = 1": config.trainer.processes > 1,
    }
