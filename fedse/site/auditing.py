"""A site's audit of itself: how it would learn, given to the attacks, before anything leaves."""

from collections.abc import Sequence
from dataclasses import replace

from fedse.aggregate.factors import as_it_leaves
from fedse.audit.conduct import AuditPlan, conduct_audit, no_word
from fedse.audit.game import AuditSubject, Learn, Probe, Tell
from fedse.audit.verdict import AuditResult, AuditRules
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.errors import ConfigError
from fedse.method.lessons import failures_for
from fedse.method.site import Fit, Site
from fedse.protocol import Question, SiteReply
from fedse.seeds import seed_of
from fedse.site.onward import OnwardTraining
from fedse.site.private_training import rehearsing
from fedse.train.loss import loss_of
from fedse.types import Adapter, Trajectory


def audit_answer(
    question: Question,
    current: Adapter,
    answer: SiteReply,
    site: Site,
    config: Config,
    rules: AuditRules | None,
) -> AuditResult | None:
    """What a server would learn from this answer; None = no audit is due, or no adapter."""
    if rules is None or answer.adapter is None or not is_due(rules, question, site):
        return None
    plan = AuditPlan(shadows=rules.shadows, seed=seed_of(config.run.seed, "audit", question.round))
    return audit_site(current, site, config, plan, round=question.round, least=rules.min_episodes)


def is_due(rules: AuditRules, question: Question, site: Site) -> bool:
    """Whether the answer of this round must be audited: the site's first, and `every` so many.

    After one that did not pass, the next one is.
    """
    if not rules.every:
        return False
    last = site.buffer.outbox.last_audit(question.experiment, before=question.round)
    return last is None or bool(last[1]) or question.round - last[0] >= rules.every


def audit_site(
    current: Adapter,
    site: Site,
    config: Config,
    plan: AuditPlan,
    *,
    round: int,
    least: int = 0,
    tell: Tell = no_word,
) -> AuditResult:
    """The audit of a reply to `round` from `current`; nothing of the site is changed by it.

    With fewer lessons than `least` nothing is computed.
    """
    probe = _probe_of(site, config)
    lessons = site.buffer.lessons(config.run.name, round, config.buffer.history)
    pool = site.prepare(lessons if len(lessons) >= least else [])
    subject = _subject(current, pool, site, probe, config, round)
    result = conduct_audit(subject, plan, tell=tell)
    # Those that are too few to look at are counted all the same.
    return result if result.attacks else result.model_copy(update={"lessons": len(lessons)})


def _probe_of(site: Site, config: Config) -> Probe:
    """What attacks compute with; a ConfigError where no audit is possible."""
    if site.probe is None:
        raise ConfigError(
            f"{site.client} has no model of its own, so it cannot audit what it sends",
            hint="set every = 0 below [audit] in policy.toml",
        )
    if loss_of(config.train).fresh:
        raise ConfigError(
            f"an audit learns from the buffer again, and train.loss = {config.train.loss!r} learns "
            "from the games of one round only",
            hint='set every = 0 below [audit] in policy.toml, or train.loss = "sft"',
        )
    if config.roles.blocks:
        raise ConfigError(
            "an audit looks at an adapter of one part, and roles.policy = 'isolated' has one for "
            f"each of {', '.join(config.roles.blocks)}",
            hint="set every = 0 below [audit] in policy.toml",
        )
    if config.step.on:
        raise ConfigError(
            "an audit learns an adapter again, and a private step sends none",
            hint="set every = 0 below [audit] in policy.toml; fedse privacy budget has a bound",
        )
    return site.probe


def _subject(
    current: Adapter,
    pool: Sequence[Trajectory],
    site: Site,
    probe: Probe,
    config: Config,
    round: int,
) -> AuditSubject:
    """How the site would learn from `pool` in that round."""
    course = Course(config.arc_in(round))
    failures = failures_for(site.buffer, config, round=round, lessons=len(pool))

    def learning(fit: Fit) -> Learn:
        training = OnwardTraining(replace(site, fit=fit), config.run.name, round)

        def learn(chosen: Sequence[Trajectory], settings: TrainSection, seed: int) -> Adapter:
            given = [*chosen, *(failures if loss_of(settings).failures else ())]
            trained = training.fit(current, given, settings, seed, course).adapter
            return as_it_leaves(trained, current, config, site.client)

        return learn

    def tokenized(episode: Trajectory) -> Trajectory:
        (prepared,) = site.prepare([episode])
        return prepared

    fit = rehearsing(site, config, round) if config.privacy.on else site.fit
    own = (learning(fit), probe, tokenized, learning(site.fit))
    return AuditSubject(current, pool, config.train_in(round), *own)
