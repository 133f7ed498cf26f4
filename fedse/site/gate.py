"""Between a request and the work: the site's rules first, then its veto, then the round.

A request for a round before the newest one the site finished is stale: a server that lost nothing
asks for the round after its last committed one, and no site has finished a later one. If the answer
is in the outbox it is sent again, else it is refused without work, also where there is no policy.

A veto: before it trains, the site lets the global adapter play its validation games. If that solves
a smaller share than the base model, or than the last adapter the site accepted, by more than
`veto_drop`, nothing is trained from it and the site answers without a vote, with a fault number for
it. The second reference moves with every accepted adapter, so a decline in steps smaller than
`veto_drop` is seen only when it goes below the base model.
"""

from pathlib import Path

from fedse.adapters.base import initial_adapter
from fedse.config.schema import Config
from fedse.errors import ConfigError, StoreError, boundary, require_packages
from fedse.events import Emit
from fedse.faults import Fault
from fedse.method.evaluate import play_held_out
from fedse.method.site import Site
from fedse.protocol import Request, SiteReply, StageRequest
from fedse.site.rules import (
    VALIDATION,
    WORK,
    RuleRefusal,
    SiteRules,
    read_rules,
    require_allowed,
    require_budget,
    require_current,
    require_near,
)
from fedse.site.serve import check_request, serve
from fedse.store.files import write_durably
from fedse.types import Adapter, ClientStats, Record

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
    base: Measure | None = None
    accepted: Measure | None = None
    vetoed: Measure | None = None


def handle_request(
    request: Request, data: bytes, site: Site, config: Config, *, policy: Path | None, emit: Emit
) -> SiteReply:
    """The site's answer; its fault says why the site chose to have no vote, if it did."""
    if policy is None:
        _require_current(request, site)
        return serve(request, data, site, config, emit=emit)
    rules = read_rules(policy)
    require_allowed(rules, request, config, site.spec.nbytes)
    if rules.pause:
        emit("site.paused", client=site.client, round=request.round)
        return SiteReply(ClientStats(), fault=Fault.PAUSED)
    if not rules.earlier_rounds:
        _require_current(request, site)
    _spend(request, data, site, config, rules)
    if request.train and rules.veto_drop is not None:
        memory = policy.parent / MEMORY
        if vetoed(request, data, site, config, rules, memory=memory):
            emit("site.vetoed", client=site.client, round=request.round, adapter=request.adapter)
            evaluation_only = request.model_copy(update={"train": False})
            return serve(evaluation_only, data, site, config, emit=emit)._replace(
                fault=Fault.VETOED
            )
    return serve(request, data, site, config, emit=emit, audit=rules.audit)


def handle_stage(
    request: StageRequest, data: bytes, site: Site, config: Config, *, policy: Path | None
) -> SiteReply:
    """The site's answer to a stage of a secure sum, unless its rules forbid it by now."""
    require_packages("aggregate.secure", "cryptography", "Crypto", extra="secure")
    # Optional packages are imported only where they are really needed.
    from fedse.site.secure_stage import serve_stage

    rules = None if policy is None else read_rules(policy)
    if rules and request.experiment not in rules.experiments:
        raise RuleRefusal(
            Fault.OTHER_EXPERIMENT, f"asked for a sum of experiment {request.experiment!r}"
        )
    if rules and rules.pause:
        return SiteReply(ClientStats(), fault=Fault.PAUSED)
    return serve_stage(request, data, site, config)


def _require_current(request: Request, site: Site) -> None:
    if not _is_answered(request, site):
        require_current(request, site.buffer.outbox.newest(request.experiment))


def _is_answered(request: Request, site: Site) -> bool:
    outbox = site.buffer.outbox
    return outbox.finished(request.experiment, request.round, request.digest) is not None


def _spend(request: Request, data: bytes, site: Site, config: Config, rules: SiteRules) -> None:
    """The site's budget allows the request and has become smaller, unless it was counted before."""
    if _is_answered(request, site):
        return
    check_request(request, data, config, site.spec)
    outbox, kind = site.buffer.outbox, VALIDATION if request.validate_only else WORK
    require_near(rules, request, outbox.newest(request.experiment))
    require_budget(rules, request, config, outbox.asked(request.experiment, kind))
    outbox.note_asked(request.experiment, kind, request.round, request.adapter)


def vetoed(
    request: Request,
    data: bytes,
    site: Site,
    config: Config,
    rules: SiteRules,
    *,
    memory: Path,
) -> bool:
    """Whether the adapter is refused; its measure is stored either way."""
    before = _read(memory, config.run.name)
    measured = (before.accepted, before.vetoed, before.base)
    measure = next((m for m in measured if m and m.adapter == request.adapter), None)
    if measure is None:
        adapter = check_request(request, data, config, site.spec)
        measure = _measure(adapter, request.round, site, config, rules.veto_games)
    base = before.base or _measure_base(request, measure, site, config, rules.veto_games)
    best = max(one.rate for one in (base, before.accepted) if one)
    allowed = rules.veto_drop or 0.0
    # Judged again even if it was measured before: the owner may have changed the rule since.
    verdict = best - measure.rate > allowed + ROUNDING
    after = before.model_copy(update={"base": base, "vetoed" if verdict else "accepted": measure})
    if after != before:
        write_durably(memory, after.model_dump_json(indent=2).encode())
    return verdict


def _measure_base(
    request: Request, measure: Measure, site: Site, config: Config, games: int
) -> Measure:
    """Of the adapter every run begins with, which changes nothing in the base model."""
    begun = initial_adapter(site.spec, seed=config.run.seed)
    if begun.digest == measure.adapter:
        return measure
    return _measure(begun, request.round, site, config, games, actor="base")


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


def _read(memory: Path, experiment: str) -> Memory:
    if not memory.exists():
        return Memory(experiment=experiment)
    again = f"its measurements are made again without it: rm {memory}"
    with boundary(StoreError, f"veto memory {memory}", hint=again):
        stored = Memory.model_validate_json(memory.read_bytes())
    return stored if stored.experiment == experiment else Memory(experiment=experiment)
