"""A site's veto: before it trains, the global adapter plays the site's validation games.

If it succeeds in a smaller share of them than the base model, or than the last adapter the site
accepted, by more than `veto_drop`, nothing is trained from it and the site answers without a vote,
with a fault number for it. The second reference moves with every accepted adapter, so a decline in
steps smaller than `veto_drop` is seen only when it goes below the base model.
"""

from pathlib import Path

from fedse.adapters.base import initial_adapter
from fedse.config.schema import Config
from fedse.errors import ConfigError, StoreError, boundary
from fedse.faults import Fault
from fedse.method.evaluate import play_held_out
from fedse.method.site import Site
from fedse.protocol import SiteReply
from fedse.site.rules import SiteRules
from fedse.site.steps import Asked, Next
from fedse.store.files import write_durably
from fedse.types import Adapter, Record

MEMORY = "veto.json"
# A share of whole games is compared with a share a person wrote.
ROUNDING = 1e-9


class Measure(Record):
    """How an adapter did in the site's validation games."""

    adapter: str
    played: int
    won: int

    @property
    def rate(self) -> float:
        return self.won / self.played


class Memory(Record):
    """The base model, the last adapter the site accepted and the last one it did not."""

    experiment: str
    since: int = 1
    """The first round of the base model that was measured."""
    base: Measure | None = None
    accepted: Measure | None = None
    vetoed: Measure | None = None


def veto(asked: Asked, rest: Next) -> SiteReply:
    """The question is answered without training if the site refuses its adapter."""
    rules, policy = asked.rules, asked.policy
    if rules is None or policy is None or rules.veto_drop is None or not asked.question.trains:
        return rest(asked)
    if not is_vetoed(asked, rules, memory=policy.parent / MEMORY):
        return rest(asked)
    asked.emit(
        "site.vetoed",
        client=asked.site.client,
        round=asked.question.round,
        adapter=asked.question.adapter,
    )
    return rest(asked.without_training())._replace(fault=Fault.VETOED)


def is_vetoed(asked: Asked, rules: SiteRules, *, memory: Path) -> bool:
    """Whether the adapter is refused; its measure is stored either way."""
    question, site, config = asked.question, asked.site, asked.config
    before = _read(memory, Memory(experiment=config.run.name, since=config.model.since))
    measured = (before.accepted, before.vetoed, before.base)
    measure = next((m for m in measured if m and m.adapter == question.adapter), None)
    if measure is None:
        played = _measure(asked.adapter, question.round, site, config, rules.veto_games)
        # As it came: what acted may have had blocks of the site's own in it.
        measure = played.model_copy(update={"adapter": question.adapter})
    base = before.base or _measure_base(question.round, measure, site, config, rules.veto_games)
    best = max(one.rate for one in (base, before.accepted) if one)
    allowed = rules.veto_drop or 0.0
    # Judged again even if it was measured before: the owner may have changed the rule since.
    verdict = best - measure.rate > allowed + ROUNDING
    after = before.model_copy(update={"base": base, "vetoed" if verdict else "accepted": measure})
    if after != before:
        write_durably(memory, after.model_dump_json(indent=2).encode())
    return verdict


def _measure_base(round: int, measure: Measure, site: Site, config: Config, games: int) -> Measure:
    """Of the adapter every run begins with, which changes nothing in the base model."""
    begun = initial_adapter(site.spec, seed=config.run.seed)
    if begun.digest == measure.adapter:
        return measure
    return _measure(begun, round, site, config, games, actor="base")


def _measure(
    adapter: Adapter, round: int, site: Site, config: Config, games: int, *, actor: str = ""
) -> Measure:
    if not config.splits.validation:
        raise ConfigError(
            "veto_drop needs validation games, splits.validation is 0 in this experiment",
            hint="remove veto_drop from policy.toml",
        )
    played = play_held_out(adapter, site, config, "validation", games, round=round, actor=actor)
    won = sum(episode.success for episode in played)
    return Measure(adapter=adapter.digest, played=len(played), won=won)


def _read(memory: Path, none: Memory) -> Memory:
    """What was measured in the experiment with its base model; `none` = nothing was."""
    if not memory.exists():
        return none
    again = f"its measurements are made again without it: rm {memory}"
    with boundary(StoreError, f"veto memory {memory}", hint=again):
        stored = Memory.model_validate_json(memory.read_bytes())
    same = (stored.experiment, stored.since) == (none.experiment, none.since)
    return stored if same else none
