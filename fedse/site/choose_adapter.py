"""The adapter a site should use: the global one, its personal one, or what it has without others.

All of them play the site's validation games. What the site would have alone is trained from the
first adapter of the experiment, on the site's own buffer, with as many steps as it took in all.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fedse.adapters.base import initial_adapter
from fedse.config.schema import Config
from fedse.course import Course
from fedse.errors import StoreError
from fedse.method.evaluate import PERSONAL, play_held_out
from fedse.method.personal import afresh
from fedse.method.site import Site
from fedse.seeds import seed_of
from fedse.site.local_blocks import with_own_blocks
from fedse.site.own_adapters import GLOBAL, kept_adapter
from fedse.site.retrain import RETRAINED
from fedse.stats.choice import SafeChoice, choose_safely
from fedse.types import Adapter

ALONE = "alone"


class ChosenAdapter(NamedTuple):
    adapter: Adapter
    choice: SafeChoice
    games: int


def choose_adapter(
    site: Site, config: Config, home: Path, *, games: int, risk: float
) -> ChosenAdapter:
    """The adapter to use, with a bound on the risk that it is worse than working alone."""
    candidates = {ALONE: trained_alone(site, config), **shared_adapters(site, config, home)}
    last = _last_round(site, config) + 1
    outcomes = {
        name: [
            episode.success
            for episode in play_held_out(
                adapter, site, config, "validation", games, round=last, actor=name
            )
        ]
        for name, adapter in candidates.items()
    }
    choice = choose_safely(outcomes, reference=ALONE, risk=risk)
    return ChosenAdapter(candidates[choice.name], choice, games)


def shared_adapters(site: Site, config: Config, home: Path) -> Mapping[str, Adapter]:
    """What the federation has brought: the newest global adapter and what was made from one.

    The global one acts with the site's own blocks.
    """
    names = (GLOBAL, PERSONAL, RETRAINED)
    kept = {name: kept_adapter(home, name, site.spec) for name in names}
    found = {name: one.adapter for name, one in kept.items() if one is not None}
    if not found:
        raise StoreError(
            f"{home} has no adapter of the federation yet",
            hint="there is one after the last round, if personal.steps is above 0",
        )
    if GLOBAL in found:
        found[GLOBAL] = with_own_blocks(found[GLOBAL], site, config)
    return found


def trained_alone(site: Site, config: Config) -> Adapter:
    """The first adapter, trained on the site's buffer with all the steps the site has taken."""
    start = initial_adapter(site.spec, seed=config.run.seed)
    lessons = site.buffer.lessons(config.run.name, _last_round(site, config), config.buffer.history)
    steps = site.buffer.outbox.steps(config.run.name) + config.personal.steps
    if not lessons or not steps:
        return start
    settings = afresh(config.train, steps, len(lessons))
    seed = seed_of(config.run.seed, site.client, ALONE)
    return site.fit(start, lessons, settings, seed, Course(stays=True)).adapter


def _last_round(site: Site, config: Config) -> int:
    """Without an end, the newest one that the site has answered."""
    newest = site.buffer.outbox.newest(config.run.name) or 0
    return newest if config.run.open else config.run.last
