"""Between a request and the work: the site's rules first, then its veto, then the round.

A request for a round before the newest one the site finished is stale: a server that lost nothing
asks for the round after its last committed one, and no site has finished a later one. If the answer
is in the outbox it is sent again, else it is refused without work, also where there is no policy.

A veto: before it trains, the site lets the global adapter play its validation games. If that solves
a smaller share than the last adapter the site accepted, by more than `veto_drop`, nothing is
trained from it and the site answers without a vote, with a fault number for it. The reference
moves with every accepted adapter, so a decline in steps smaller than `veto_drop` is not seen.
"""

from pathlib import Path

from fedse.config.schema import Config
from fedse.errors import ConfigError, StoreError, boundary
from fedse.events import Emit
from fedse.faults import Fault
from fedse.method.evaluate import play_held_out
from fedse.method.site import Site
from fedse.protocol import Request, SiteReply
from fedse.site.rules import SiteRules, read_rules, require_allowed, require_current
from fedse.site.serve import check_request, serve
from fedse.store.files import write_durably
from fedse.types import ClientStats, Record

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
    """The last adapter the site accepted and the last one it did not."""

    experiment: str
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
    if request.train and rules.veto_drop is not None:
        memory = policy.parent / MEMORY
        if vetoed(request, data, site, config, rules, memory=memory):
            emit("site.vetoed", client=site.client, round=request.round, adapter=request.adapter)
            evaluation_only = request.model_copy(update={"train": False})
            return serve(evaluation_only, data, site, config, emit=emit)._replace(
                fault=Fault.VETOED
            )
    return serve(request, data, site, config, emit=emit)


def _require_current(request: Request, site: Site) -> None:
    buffer, key = site.buffer, (request.experiment, request.round, request.digest)
    if buffer.outbox.finished(*key) is None:
        require_current(request, buffer.outbox.newest(request.experiment))


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
    measured = (before.accepted, before.vetoed)
    measure = next((m for m in measured if m and m.adapter == request.adapter), None)
    measure = measure or _measure(request, data, site, config, rules.veto_games)
    last, allowed = before.accepted, rules.veto_drop or 0.0
    # Judged again even if it was measured before: the owner may have changed the rule since.
    verdict = last is not None and last.rate - measure.rate > allowed + ROUNDING
    after = before.model_copy(update={"vetoed" if verdict else "accepted": measure})
    if after != before:
        write_durably(memory, after.model_dump_json(indent=2).encode())
    return verdict


def _measure(request: Request, data: bytes, site: Site, config: Config, games: int) -> Measure:
    adapter = check_request(request, data, config, site.spec)
    if not config.splits.validation:
        raise ConfigError(
            "veto_drop needs validation games, splits.validation is 0 in this experiment",
            hint="remove veto_drop from policy.toml",
        )
    played = play_held_out(adapter, site, config, "validation", games, round=request.round)
    won = sum(episode.success for episode in played)
    return Measure(adapter=adapter.digest, played=len(played), won=won)


def _read(memory: Path, experiment: str) -> Memory:
    if not memory.exists():
        return Memory(experiment=experiment)
    with boundary(StoreError, f"veto memory {memory}"):
        stored = Memory.model_validate_json(memory.read_bytes())
    return stored if stored.experiment == experiment else Memory(experiment=experiment)
