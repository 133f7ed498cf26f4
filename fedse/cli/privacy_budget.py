"""`fedse privacy budget`: what the adapters sent by a site may reveal about one of its units."""

import json as json_format
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from fedse.cli.display import Json
from fedse.cli.site_options import HERE, HomeOption, buffer_of, opened
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.privacy.accountant import Charge
from fedse.privacy.attacks import FALSE_ALARMS, AttackBounds, attack_bounds
from fedse.privacy.plan import charge_of, clip_of
from fedse.site.private_training import rounds_left, spent_with


def budget(*, home: HomeOption = HERE, json: Json = False) -> None:
    """Show how much of the site's privacy budget is spent, on what, and what is left.

    The budget is that of [privacy] in site.toml. It counts over all experiments and is never reset.

    Example: fedse privacy budget --home site
    """
    site = opened(home)
    config = site.config
    if not config.privacy.on:
        raise ConfigError(
            f"this site has no privacy budget: [privacy] in {home / 'site.toml'} sets no epsilon",
            hint="set one there, before the first round; see docs/how-to/differential-privacy.md",
        )
    with buffer_of(site.path) as buffer:
        journal = buffer.outbox.privacy
        spent, left = spent_with(journal, config), rounds_left(journal, config)
        charges = journal.charges()
    if json:
        print(json_format.dumps(_facts(config, charges, spent, left)))
        return
    print("\n".join(_lines(config, charges, spent, left)))


def _facts(config: Config, charges: list[Charge], spent: float, left: int) -> dict[str, Any]:
    settings, plan = config.privacy, charge_of(config, 1, config.train)
    return {
        "unit": settings.unit,
        "epsilon": settings.epsilon,
        "delta": settings.delta,
        "spent": None if spent == float("inf") else spent,
        "rounds_left": left,
        "clip": clip_of(config),
        "rate": plan.rate,
        "noise": plan.noise,
        "steps": plan.steps,
        "bounds": _bounds(config, charges, left)._asdict(),
        "charges": [charge._asdict() for charge in charges],
    }


def _bounds(config: Config, charges: list[Charge], left: int) -> AttackBounds:
    """On any attack, once all rounds that are left were answered."""
    return attack_bounds([*charges, *[charge_of(config, 1, config.train)] * left])


def _lines(config: Config, charges: list[Charge], spent: float, left: int) -> Iterator[str]:
    settings, plan = config.privacy, charge_of(config, 1, config.train)
    yield f"unit     {settings.unit}, delta {settings.delta:g}"
    yield f"spent    epsilon {spent:.4g} of {settings.epsilon:g}"
    yield (
        f"a round  {plan.steps} steps, each with {plan.rate:g} of the units, gradients of norm "
        f"{clip_of(config):g}, noise {plan.noise:g}"
    )
    yield f"left     {left} such rounds" if left else "left     none: the site abstains"
    most = _bounds(config, charges, left)
    yield (
        f"then     no attack has an AUC above {most.auc:.2f}, or names more than {most.found:.0%} "
        f"of the {settings.unit}s that were learned from at {FALSE_ALARMS:.0%} false alarms"
    )
    for (experiment, unit, noise), alike in groupby(charges, key=_kind):
        rounds = [charge.round for charge in alike]
        how = f"noise {noise:g}" if noise else "WITHOUT NOISE, so nothing is protected"
        yield f"charged  {experiment}, rounds {min(rounds)} to {max(rounds)}, by {unit}: {how}"


def _kind(charge: Charge) -> tuple[str, str, float]:
    return charge.experiment, charge.unit, charge.noise
