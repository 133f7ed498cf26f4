"""Which settings of different sections go together; others are refused before anything starts."""

import json
from typing import Any

from fedse.config.aggregation import AGGREGATES
from fedse.config.training import LOSSES

LEAST_MEMBERS = 3
"""Of a secure sum: with two, each could subtract its own update and learn the other's."""

LONGEST_NAMES = 256
"""Of all blocks together: the keys of every member name those that it has an update of."""

USUAL_NOISE = 3.61
"""Of a private step: by the accountant for 36 rounds, an epsilon of 8 and a delta of 1e-5."""

ParsedConfig = Any
"""A `Config`; the schema imports this module, so it cannot be named here."""


def require_combinable(config: ParsedConfig) -> None:
    """The settings have a meaning together; the first pair that has none is a ValueError."""
    refused = {
        **_with_roles(config),
        **(_acting(config) if config.roles.names else {}),
        **_merging(config),
        **(_secure(config) if config.aggregate.secure else {}),
        **(_private(config) if config.privacy.on else {}),
        **(_stepping(config) if config.step.on else {}),
        **_resting(config),
        **(_with_late(config) if config.aggregate.late else {}),
        **(_endless(config) if config.run.open else {}),
        **(_with_news(config) if config.schedule.news else {}),
        **(_regional(config) if config.aggregate.regions else {}),
    }
    for reason, found in refused.items():
        if found:
            raise ValueError(reason)


def _acting(config: ParsedConfig) -> dict[str, bool]:
    """What an agent of several roles cannot do."""
    loss, blocks = config.train.loss, bool(config.roles.blocks)
    takes_roles = LOSSES.variant(loss) is None or getattr(LOSSES.variant(loss), "roles", False)
    return {
        f'roles.names needs train.loss = "sft": {loss!r} compares whole episodes, and those of '
        "several roles are several conversations": not takes_roles,
        "clients.roles needs buffer.pooled = false: one trainer learns for all "
        "sites": config.buffer.pooled and any(client.roles for client in config.clients),
        'roles.policy = "isolated" needs privacy.epsilon unset, or step.units: the fit of each '
        "role would spend it again, a step is of all together": blocks
        and config.privacy.on
        and not config.step.on,
        'roles.policy = "isolated" needs engine.adapters = "lora": a server has the weights of one '
        "role at a time": blocks
        and config.engine.type == "vllm"
        and config.engine.adapters == "merged",
    }


def _with_roles(config: ParsedConfig) -> dict[str, bool]:
    """Whose vote counts for which part of the adapter, and what cannot stay at a site."""
    roles, local = config.roles, bool(config.roles.local)
    wrong = roles.unmerged({client.name: client.roles for client in config.clients})
    return {
        wrong: bool(wrong),
        "roles.local needs buffer.pooled = false: one trainer learns for all sites": local
        and config.buffer.pooled,
        "roles.local needs step.units = 0: a private step moves what all sites share": local
        and config.step.on,
    }


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


def least_in_sum(members: int) -> int:
    """More than two thirds of the members."""
    return max(2 * members // 3 + 1, LEAST_MEMBERS)


def _secure(config: ParsedConfig) -> dict[str, bool]:
    """What needs single updates cannot be had where the server sees only their sum."""
    rules, needs = config.aggregate, "aggregate.secure needs"
    # With regions each of them is a sum of its own.
    needed = 0 if rules.regions else least_in_sum(len(config.clients))
    return {
        f'{needs} aggregate.type = "mean"': rules.type != "mean",
        f'{needs} aggregate.clip = "none": members shorten their own updates to '
        "aggregate.secure_bound": rules.clip != "none",
        f"{needs} aggregate.goal = 0: every member is asked": rules.goal > 0,
        f"{needs} gate.liars = 0: to leave single votes out would tell them": config.gate.episodes
        > 0
        and config.gate.liars > 0,
        f"{needs} buffer.pooled = false": config.buffer.pooled,
        f"{needs} names of merged roles with fewer than {LONGEST_NAMES} characters together": len(
            "".join(config.roles.merged_blocks)
        )
        >= LONGEST_NAMES,
        f"{needs} {LEAST_MEMBERS} clients or more with each role: a sum of fewer would tell "
        "too much": any(having < LEAST_MEMBERS for having in _voters(config)),
        f"{needs} all clients from round 1 on": any(one.joins > 1 for one in config.clients),
        f"{needs} {needed} clients or more": len(config.clients) < needed,
        f"{needs} aggregate.secure_members of {len(config.clients)} or more, or 0": 0
        < rules.secure_members
        < len(config.clients),
    }


def _voters(config: ParsedConfig) -> list[int]:
    """How many clients vote on each block, if the adapter has blocks."""
    voted = [config.roles.blocks_voted_on(client.roles) for client in config.clients]
    return [sum(block in blocks for blocks in voted) for block in config.roles.merged_blocks]


def _with_late(config: ParsedConfig) -> dict[str, bool]:
    """A vote of an earlier round is added to a mean as a part of a vote, and only there."""
    needs = "aggregate.late needs"
    return {
        f'{needs} aggregate.type = "mean": other rules know no parts of a '
        "vote": config.aggregate.type != "mean",
        f"{needs} aggregate.secure = false: the keys of a sum are those of one "
        "round": config.aggregate.secure,
        f"{needs} gate.liars = 0: what one vote does is judged among votes of the same "
        "round": config.gate.episodes > 0 and config.gate.liars > 0,
    }


def _endless(config: ParsedConfig) -> dict[str, bool]:
    """What is divided over all rounds, or comes after the last one."""
    needs, privacy = 'run.rounds = "open" needs', config.privacy
    return {
        f'{needs} train.schedule = "round" or "constant"': config.train.schedule == "run",
        f"{needs} privacy.rounds, for which epsilon must last, or privacy.noise": privacy.on
        and not config.step.on
        and privacy.rounds is None
        and privacy.noise is None,
        f"{needs} personal.every above 0: there is no last round": config.personal.steps > 0
        and config.personal.every == 0,
    }


def _with_news(config: ParsedConfig) -> dict[str, bool]:
    """Only the sites with news take part, so these must be enough for what a round does."""
    news, members = config.schedule.news, len(config.clients)
    liars = config.gate.liars if config.gate.episodes else 0
    summed = least_in_sum(members) if config.aggregate.secure else 0
    return {
        f"schedule.news = {news} needs {news} clients or more": news > members,
        f"gate.liars = {liars} needs schedule.news above {2 * liars}, or 0": news <= 2 * liars,
        f"aggregate.secure needs schedule.news of {summed} or more, or 0": news < summed,
        "schedule.news needs buffer.pooled = false": config.buffer.pooled,
    }


def _regional(config: ParsedConfig) -> dict[str, bool]:
    """What needs every vote in one place cannot be had where regions send sums."""
    rules, needs = config.aggregate, "aggregate.regions needs"
    strangers = ", ".join(sorted({*rules.regions} - {one.name for one in config.clients}))
    return {
        f"aggregate.regions names {strangers}, which is no client": bool(strangers),
        f'{needs} roles.policy = "shared": the sum of a region is of whole adapters': bool(
            config.roles.blocks
        ),
        f'{needs} aggregate.type = "mean" or "weighted": others need every vote in one '
        "place": rules.type not in ("mean", "weighted"),
        f"{needs} aggregate.goal = 0: the first votes of a region are no sum": rules.goal > 0,
        f"{needs} aggregate.late = 0: a late vote of a region is no sum": rules.late > 0,
        f"{needs} gate.episodes = 0: the gate leaves single votes out": config.gate.episodes > 0,
        f"{needs} schedule.news = 0: a region does not tell whose news it has": config.schedule.news
        > 0,
        f"{needs} buffer.pooled = false": config.buffer.pooled,
        f"{needs} aggregate.secure = false, or nothing but regions: a site beside them is in no "
        "sum": rules.secure and len(rules.regions) < len(config.clients),
        f"{needs} step.units = 0: the noise of a step is shared by all who are in one sum, and a "
        "region's own sum would have its part of it only": config.step.on,
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


def _stepping(config: ParsedConfig) -> dict[str, bool]:
    """What a step needs so that every site knows what its share of the noise hides."""
    step, needs = config.step, "step.units needs"
    return {
        f"{needs} aggregate.secure = true: no single sum has all of the "
        "noise": not config.aggregate.secure,
        f"{needs} step.noise, such as {USUAL_NOISE:g} for 36 rounds at an epsilon of 8": step.noise
        is None,
        f"{needs} privacy.noise unset: step.noise is what all sites agree on": config.privacy.noise
        is not None,
        f'{needs} train.loss = "sft": with another, the gradient of an episode may depend on '
        "others": config.train.loss != "sft",
        f'{needs} select.type = "success" or "all": with others, one unit decides whether others '
        "are learned from": config.select.type not in ("success", "all"),
        f"{needs} aggregate.step = 1: step.lr says how far to go": config.aggregate.step != 1,
    }


def _resting(config: ParsedConfig) -> dict[str, bool]:
    """Rounds without games learn from earlier ones."""
    refused = config.rollout.every > 1 and config.buffer.history == "round"
    return {'rollout.every above 1 needs buffer.history other than "round"': refused}
