"""Answer one request at a client: check it, do the work once, keep the answer, give it back.

The answer is durable in the outbox before it leaves, so a request that comes again (the server
or this process died) is answered with the same bytes instead of being worked on again. Each time
it has a line in the client's ledger before it leaves; without that line nothing leaves.
"""

from dataclasses import replace

from fedse.adapters.base import initial_adapter
from fedse.aggregate.factors import (
    learned_part,
    reply_spec,
    travelling_spec,
    with_resting_factor,
)
from fedse.aggregate.validate import parse_adapter
from fedse.config.schema import Config
from fedse.errors import EnvError, WireError
from fedse.events import Emit
from fedse.ledger.entries import answer_entry
from fedse.ledger.record import note_answer
from fedse.method.evaluate import client_eval, client_validation
from fedse.method.rounds import client_round
from fedse.method.site import Site
from fedse.protocol import Request, SiteReply
from fedse.site.onward import OnwardTraining
from fedse.types import Adapter, AdapterSpec, ClientStats, ClientUpdate


def serve(request: Request, data: bytes, site: Site, config: Config, *, emit: Emit) -> SiteReply:
    """The client's answer to `request`, computed now or earlier."""
    current = check_request(request, data, config, site.spec)
    key = (request.experiment, request.round, request.digest)
    done = site.buffer.outbox.finished(*key)
    fresh = done is None
    if done is None:
        training = OnwardTraining(site, request.experiment, request.round)
        update = _work(request, current, replace(site, fit=training.fit), config, emit)
        done = SiteReply(update.stats, _returned(update.adapter, config, request.round))
        site.buffer.outbox.finish(*key, done, moments=training.moments)
    if site.home is not None:
        entry = answer_entry(key, done, received=request.adapter, bytes_down=len(data))
        note_answer(site.home, site.client, entry, fresh=fresh, clock=site.clock)
    emit("upload.started", client=site.client, round=request.round, bytes=len(done.adapter or b""))
    return done


def _returned(adapter: Adapter | None, config: Config, round: int) -> bytes | None:
    """What leaves of an adapter: the factors that were learned."""
    if adapter is None:
        return None
    return learned_part(adapter, reply_spec(adapter.spec, config, round=round)).to_bytes()


def check_request(request: Request, data: bytes, config: Config, spec: AdapterSpec) -> Adapter:
    """The adapter of a request this client agreed to; any other request is a WireError."""
    if request.experiment != config.run.name:
        raise WireError(
            f"asked for experiment {request.experiment!r}, expected {config.run.name!r}"
        )
    if request.agreed != config.agreed_digest():
        raise WireError(
            "the server's settings differ from the ones this client agreed to",
            hint="compare `fedse config show CONFIG` on both sides",
        )
    if request.spec != spec.identity:
        raise WireError(
            "the server's base model or adapter layout differs from this client's",
            hint="compare model.base, model.rank and model.targets on both sides",
        )
    adapter = parse_adapter(_received(data, config, spec), spec, config.aggregate)
    if adapter.digest != request.adapter:
        raise WireError("the adapter is not the one the request names")
    return adapter


def _received(data: bytes, config: Config, spec: AdapterSpec) -> bytes:
    """The bytes of the whole adapter; a factor that never travels is as every run begins."""
    travelling = travelling_spec(spec, config)
    if travelling == spec:
        return data
    begun = initial_adapter(spec, seed=config.run.seed)
    return with_resting_factor(data, travelling, begun)


def _work(
    request: Request, current: Adapter, site: Site, config: Config, emit: Emit
) -> ClientUpdate:
    measured = ClientStats()
    try:
        if request.validate_only:
            counted = client_validation(current, site, config, round=request.round)
            return ClientUpdate(counted, None)
        if request.evaluate:
            measured = client_eval(current, site, config, round=request.round, emit=emit)
        if not request.train:
            return ClientUpdate(measured, None)
        update = client_round(current, site, config, round=request.round, emit=emit)
    except EnvError as error:
        raise EnvError(str(error), hint=error.hint or site.check) from error
    stats = update.stats.model_copy(update=measured.model_dump(exclude_unset=True))
    return ClientUpdate(stats, update.adapter)
