"""An adapter of the site's own, made from what is left after a person or case was forgotten.

The site's answers need no such command: the next one is trained on what is left, from the adapter
that the server sends. That adapter may carry what was forgotten, from this site's earlier answers.
So the one made here begins with an adapter that cannot: the newest copy of the federation's which
is older than the first answer made with it, or else the one every run begins with. It stays at the
site, and no round that was answered is answered differently.
"""

from pathlib import Path
from typing import NamedTuple

from fedse.adapters.base import initial_adapter
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.errors import StoreError
from fedse.method.lessons import failures_for
from fedse.method.site import Site
from fedse.seeds import seed_of
from fedse.site.descent import descent_of, first_learned
from fedse.site.local_blocks import with_own_blocks
from fedse.site.own_adapters import GLOBAL, KeptAdapter, keep_adapter, kept_adapter
from fedse.types import Adapter

RETRAINED = "retrained"


class Retrained(NamedTuple):
    adapter: Adapter
    start: KeptAdapter
    """What it was made from; round 0 = the adapter every run begins with."""
    clean: bool
    """Whether that cannot carry what was forgotten."""
    round: int
    """The newest round the site has answered."""
    lessons: int
    steps: int


def retrain_without(
    subject: str, site: Site, config: Config, home: Path, *, newest: bool = False
) -> Retrained:
    """The site keeps an adapter trained on what is left, as long as all its rounds since the start.

    With `newest` it begins with the newest adapter of the federation, whatever that carries.
    """
    erasures = site.buffer.erasures.of(subject)
    if not erasures or site.buffer.erasures.find(subject).rows:
        raise StoreError(
            "this name was not forgotten here yet, or something about it was stored since",
            hint=f"fedse privacy forget SUBJECT --home {home}",
        )
    name, answered = config.run.name, site.buffer.outbox.newest(config.run.name) or 0
    seen = [one.seen[name] for one in erasures if name in one.seen]
    start, clean = _start(site, config, home, seen=min(seen, default=None), newest=newest)
    round = max(1, min(answered, config.run.last))
    lessons = site.buffer.lessons(name, round, config.buffer.history)
    if not lessons:
        raise StoreError("nothing is left to learn from", hint="take part in a round first")
    settings = _length(config.train_in(round), rounds=max(1, round - start.round))
    failures = failures_for(site.buffer, config, round=round, lessons=len(lessons))
    seed = seed_of(config.run.seed, site.client, round, RETRAINED)
    begun = with_own_blocks(start.adapter, site, config, before=start.round + 1)
    fitted = site.fit(begun, [*lessons, *failures], settings, seed, Course())
    keep_adapter(home, RETRAINED, answered, fitted.adapter)
    return Retrained(fitted.adapter, start, clean, answered, len(lessons), fitted.steps)


def _start(
    site: Site, config: Config, home: Path, *, seen: int | None, newest: bool
) -> tuple[KeptAdapter, bool]:
    kept = kept_adapter(home, GLOBAL, site.spec)
    if kept is not None:
        merged = descent_of(home, {} if seen is None else {config.run.name: seen}).merged
        known = {one.adapter for one in merged}
        clean = kept.adapter.digest not in known and (
            seen is None or kept.round < first_learned(seen)
        )
        if clean or newest:
            return kept, clean
    return KeptAdapter(0, initial_adapter(site.spec, seed=config.run.seed)), True


def _length(train: TrainSection, *, rounds: int) -> TrainSection:
    """As many passes or steps as so many rounds have, in one go."""
    lengths = train.model_dump(include={"epochs", "max_steps", "steps"}, exclude_none=True)
    longer = {key: rounds * length for key, length in lengths.items()}
    return train.model_copy(update={**longer, "optimizer": "fresh", "factors": "both"})
