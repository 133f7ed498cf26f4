"""What a site does to answer a question, as a tuple of steps.

The answer is durable in the outbox before it leaves, so a question that comes again (the server or
this process died) is answered with the same bytes instead of being worked on again. Each time, the
answer has a line in the site's ledger before it leaves; without that line nothing leaves.

If the site's rules ask for an audit, it comes before the answer is stored. An answer that does not
pass is stored without its adapter, so none that was not judged can ever be sent again.
"""

from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

from fedse.adapters.base import initial_adapter
from fedse.aggregate.factors import travelling_spec, with_resting_factor
from fedse.aggregate.validate import parse_adapter
from fedse.audit.verdict import AuditResult, AuditRules
from fedse.config.schema import Config
from fedse.errors import EnvError, WireError
from fedse.events import Emit
from fedse.faults import Fault
from fedse.ledger.audits import note_audit
from fedse.ledger.entries import AuditEntry, answer_entry
from fedse.ledger.record import note_answer
from fedse.method.evaluate import client_eval, client_validation
from fedse.method.rounds import client_round
from fedse.method.site import Site
from fedse.protocol import SUM_STAGES, Kind, Question, SiteReply
from fedse.site.auditing import audit_answer
from fedse.site.door import follow_rules, refuse_stale, spend_rounds
from fedse.site.local_blocks import act_with_own_blocks, own_blocks
from fedse.site.news import tell_news
from fedse.site.old_episodes import remove_old
from fedse.site.onward import OnwardTraining
from fedse.site.private_training import spend_privacy, train_with_noise
from fedse.site.steps import Asked, Next, Step, through
from fedse.site.veto import veto
from fedse.types import AdapterSpec, ClientStats, ClientUpdate

DOOR = (remove_old, follow_rules, refuse_stale)
"""What a site that is asked by somebody else does first."""


def answer(
    question: Question, body: bytes, site: Site, config: Config, *, emit: Emit, policy: Path | None
) -> SiteReply:
    """The answer of a site that has its own rules; the fault says why it has no vote, if so."""
    asked = Asked(question, body, site, config, emit, policy=policy)
    return through((*DOOR, *steps_of(config, question.kind)), asked)


def serve(
    question: Question,
    body: bytes,
    site: Site,
    config: Config,
    *,
    emit: Emit,
    audit: AuditRules | None = None,
) -> SiteReply:
    """The answer of a site of this machine's own user, computed now or earlier."""
    asked = Asked(question, body, site, config, emit, audit=audit)
    return through(steps_of(config, question.kind), asked)


def steps_of(config: Config, kind: Kind) -> tuple[Step, ...]:
    """The steps that answer a question of this kind, the outermost first."""
    if kind in SUM_STAGES and not config.aggregate.secure:
        raise WireError("asked for a stage of a sum this site has not agreed to")
    if kind in SUM_STAGES:
        return (check_agreement, _step("secure_stage", "answer_stage"))
    if kind == "agree":
        return (_step("consider", "consider"),)
    if kind == "news":
        return (check_agreement, tell_news)
    noisy = _step("private_step", "step_with_noise") if config.step.on else train_with_noise
    # Without a budget a step is never within it: no plain one can leave.
    private = (spend_privacy, noisy) if config.privacy.on or config.step.on else ()
    summed = (_step("secure_stage", "announce"),) if config.aggregate.secure else ()
    came = (check_adapter, act_with_own_blocks, spend_rounds, veto)
    return (*came, *private, leave, *summed, note, work_once)


@cache
def _step(module: str, name: str) -> Step:
    # Optional packages are imported only where they are really needed.
    step: Step = getattr(import_module(f"fedse.site.{module}"), name)
    return step


def check_agreement(asked: Asked, rest: Next) -> SiteReply:
    """The question is about what this site agreed to; any other is a WireError."""
    require_agreed(asked.question, asked.config, asked.site.spec)
    return rest(asked)


def check_adapter(asked: Asked, rest: Next) -> SiteReply:
    """The question is agreed to, and the message beside it is the adapter that it names."""
    question, config, spec = asked.question, asked.config, asked.site.spec
    require_agreed(question, config, spec)
    adapter = parse_adapter(received(asked.body, config, spec), spec, config.aggregate)
    if adapter.digest != question.adapter:
        raise WireError("the adapter is not the one the question names")
    return rest(replace(asked, current=adapter))


def require_agreed(question: Question, config: Config, spec: AdapterSpec) -> None:
    """Experiment, settings and adapter layout are those this site agreed to."""
    if question.experiment != config.run.name:
        raise WireError(
            f"asked for experiment {question.experiment!r}, expected {config.run.name!r}"
        )
    if question.agreed != config.agreed_digest():
        raise WireError(
            "the server's settings differ from the ones this site agreed to",
            hint="compare `fedse config show CONFIG` on both sides",
        )
    if question.spec != spec.identity:
        raise WireError(
            "the server's base model or adapter layout differs from this site's",
            hint="compare model.base, model.rank and model.targets on both sides",
        )


def received(body: bytes, config: Config, spec: AdapterSpec) -> bytes:
    """The bytes of the whole adapter; a factor that never travels is as every run begins."""
    travelling = travelling_spec(spec, config)
    if travelling == spec:
        return body
    begun = initial_adapter(spec, seed=config.run.seed)
    return with_resting_factor(body, travelling, begun)


def leave(asked: Asked, rest: Next) -> SiteReply:
    """The answer leaves, unless the audit withheld it: then a fault leaves in its place."""
    done = rest(asked)
    if done.fault:
        asked.emit("site.withheld", client=asked.site.client, round=asked.question.round)
        return SiteReply(ClientStats(), fault=done.fault)
    asked.emit(
        "upload.started",
        client=asked.site.client,
        round=asked.question.round,
        bytes=len(done.adapter or b""),
    )
    return done


def note(asked: Asked, rest: Next) -> SiteReply:
    """The answer, and the audit of it, have their lines in the site's ledger."""
    site, fresh = asked.site, not asked.is_finished()
    done = rest(asked)
    if site.home is not None:
        note_audit(site.home, site.client, _audit_entry(asked, done), clock=site.clock)
        received, size = asked.question.adapter, len(asked.body)
        entry = answer_entry(asked.key, done, received=received, bytes_down=size)
        note_answer(site.home, site.client, entry, fresh=fresh, clock=site.clock)
    return done


def _audit_entry(asked: Asked, done: SiteReply) -> AuditEntry | None:
    """The line about the audit of an answer; None = it was not audited."""
    found = asked.site.buffer.outbox.audit(*asked.key)
    if found is None:
        return None
    passed, result = not done.fault, AuditResult.model_validate_json(found)
    experiment, round, request = asked.key
    return AuditEntry(
        experiment=experiment, round=round, request=request, passed=passed, result=result
    )


def work_once(asked: Asked, rest: Next) -> SiteReply:
    """The stored answer or, if there is none, the work done and stored with its audit."""
    done = asked.finished()
    return _finish(asked) if done is None else done


def _finish(asked: Asked) -> SiteReply:
    """The work is done; the answer and the audit that lets it pass or not are durable together."""
    question, site, config = asked.question, asked.site, asked.config
    trained = replace(site, fit=asked.fit or site.fit)
    since = config.model.since
    onward = OnwardTraining(trained, question.experiment, question.round, since=since)
    update = asked.allowed(_work(replace(asked, site=replace(site, fit=onward.fit))))
    stats, moments = update.stats, onward.moments
    sent = None if update.adapter is None else asked.sent(update.adapter, config, site.client)
    local = None if update.adapter is None else own_blocks(update.adapter, config, site.client)
    done = SiteReply(stats, sent)
    result = audit_answer(question, asked.adapter, done, site, config, asked.audit)
    if result is not None and asked.audit is not None and not result.passes(asked.audit):
        # These moments and blocks are those of training that counts for nobody.
        done, moments, local = SiteReply(stats, fault=Fault.WITHHELD), None, None
    site.buffer.outbox.finish(
        *asked.key,
        done,
        kind=question.kind,
        moments=moments,
        local=local,
        keep=config.storage.answers,
        audit=None if result is None else result.model_dump_json(),
        noise=asked.noise,
    )
    return done


def _work(asked: Asked) -> ClientUpdate:
    question, given = asked.question, (asked.adapter, asked.site, asked.config)
    measured = ClientStats()
    try:
        if question.kind == "validate":
            counted = client_validation(*given, round=question.round, emit=asked.emit)
            return ClientUpdate(counted, None)
        if question.evaluate:
            measured = client_eval(*given, round=question.round, emit=asked.emit)
        if not question.trains:
            return ClientUpdate(measured, None)
        update = client_round(*given, round=question.round, emit=asked.emit)
    except EnvError as error:
        raise EnvError(str(error), hint=error.hint or asked.site.check) from error
    stats = update.stats.model_copy(update=measured.model_dump(exclude_unset=True))
    return ClientUpdate(stats, update.adapter)
