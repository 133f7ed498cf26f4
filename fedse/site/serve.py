"""Answer one request at a client: check it, do the work once, keep the answer, give it back.

The answer is durable in the outbox before it leaves, so a request that comes again (the server
or this process died) is answered with the same bytes instead of being worked on again. Each time
it has a line in the client's ledger before it leaves; without that line nothing leaves.

If the site's rules ask for an audit, it comes before the answer is stored. An answer that does not
pass is stored without its adapter, so none that was not judged can ever be sent again.
"""

from dataclasses import replace

from fedse.adapters.base import initial_adapter
from fedse.aggregate.factors import (
    learned_part,
    travelling_spec,
    with_resting_factor,
)
from fedse.aggregate.validate import parse_adapter
from fedse.audit.verdict import AuditResult, AuditRules
from fedse.config.schema import Config
from fedse.errors import EnvError, TrainError, WireError, require_packages
from fedse.events import Emit
from fedse.faults import Fault
from fedse.ledger.audits import note_audit
from fedse.ledger.entries import AuditEntry, OutboxKey, answer_entry
from fedse.ledger.record import note_answer
from fedse.method.evaluate import client_eval, client_validation
from fedse.method.rounds import client_round
from fedse.method.site import Site
from fedse.protocol import Request, SiteReply
from fedse.site.auditing import audit_answer
from fedse.site.onward import OnwardTraining
from fedse.site.private_training import PrivateTraining, may_train, reported
from fedse.types import Adapter, AdapterSpec, ClientStats, ClientUpdate


def serve(
    request: Request,
    data: bytes,
    site: Site,
    config: Config,
    *,
    emit: Emit,
    audit: AuditRules | None = None,
) -> SiteReply:
    """The client's answer to `request`, computed now or earlier."""
    current = check_request(request, data, config, site.spec)
    key = (request.experiment, request.round, request.digest)
    done = site.buffer.outbox.finished(*key)
    fresh = done is None
    if done is None:
        if request.train and config.privacy.on and not may_train(site, config, request.round):
            emit("site.spent", client=site.client, round=request.round)
            evaluation_only = request.model_copy(update={"train": False})
            answer = serve(evaluation_only, data, site, config, emit=emit)
            return answer._replace(fault=Fault.PRIVACY_SPENT)
        done = _finish(request, current, site, config, emit, audit)
    elif request.train:
        # A crash may have come between the answer and this.
        site.buffer.outbox.privacy.forget_secrets(request.experiment, up_to=request.round)
    if site.home is not None:
        note_audit(site.home, site.client, _audit_entry(key, done, site), clock=site.clock)
        entry = answer_entry(key, done, received=request.adapter, bytes_down=len(data))
        note_answer(site.home, site.client, entry, fresh=fresh, clock=site.clock)
    if done.fault:
        emit("site.withheld", client=site.client, round=request.round)
        return SiteReply(ClientStats(), fault=done.fault)
    leaves = _leaving(request, current, done, site, config)
    sent = len(leaves.adapter or b"")
    emit("upload.started", client=site.client, round=request.round, bytes=sent)
    return leaves


def _finish(
    request: Request,
    current: Adapter,
    site: Site,
    config: Config,
    emit: Emit,
    audit: AuditRules | None,
) -> SiteReply:
    """The work is done; the answer and the audit that lets it pass or not are durable together."""
    private, outbox = PrivateTraining(site, config, request.round), site.buffer.outbox
    trained = replace(site, fit=private.fit) if config.privacy.on else site
    onward = OnwardTraining(trained, request.experiment, request.round)
    update = _work(request, current, replace(site, fit=onward.fit), config, emit)
    if config.privacy.on and update.adapter and update.adapter.digest not in private.results:
        raise TrainError("an adapter was made without noise, so it does not leave the site")
    stats, moments = reported(update.stats, config), onward.moments
    done = SiteReply(stats, _returned(update.adapter, config))
    result = audit_answer(request, current, done, site, config, audit)
    if result is not None and audit is not None and not result.passes(audit):
        # Moments are those of training that counts for nobody.
        done, moments = SiteReply(stats, fault=Fault.WITHHELD), None
    found = None if result is None else result.model_dump_json()
    key, keep = (request.experiment, request.round, request.digest), config.storage.answers
    noise = bool(private.results)
    outbox.finish(*key, done, moments=moments, keep=keep, audit=found, noise=noise)
    if noise:
        outbox.privacy.forget_secrets(request.experiment, up_to=request.round)
    return done


def _audit_entry(key: OutboxKey, done: SiteReply, site: Site) -> AuditEntry | None:
    """The line about the audit of an answer; None = it was not audited."""
    found = site.buffer.outbox.audit(*key)
    if found is None:
        return None
    passed, result = not done.fault, AuditResult.model_validate_json(found)
    experiment, round, request = key
    return AuditEntry(
        experiment=experiment, round=round, request=request, passed=passed, result=result
    )


def _leaving(
    request: Request, current: Adapter, done: SiteReply, site: Site, config: Config
) -> SiteReply:
    """The answer as the server gets it: whole, or with keys for a sum in place of the adapter."""
    if not config.aggregate.secure or not request.train:
        return done
    require_packages("aggregate.secure", "cryptography", "Crypto", extra="secure")
    # Optional packages are imported only where they are really needed.
    from fedse.site.secure_stage import announced

    return announced(request, current, done, site, config)


def _returned(adapter: Adapter | None, config: Config) -> bytes | None:
    """What leaves of an adapter: the factors that were learned."""
    if adapter is None:
        return None
    return learned_part(adapter, travelling_spec(adapter.spec, config)).to_bytes()


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
            counted = client_validation(current, site, config, round=request.round, emit=emit)
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
