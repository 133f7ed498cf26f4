"""Training whose result may leave: within the site's privacy budget, and charged before it begins.

The noise is made of a secret that is on record with the charge. A fit that was interrupted is made
again with the same secret only if it is the same in every respect; else two results with the same
noise could be compared. With the answer in the outbox the secret is gone.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from secrets import token_bytes
from typing import NamedTuple

from fedse._version import __version__
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course, PrivateCourse
from fedse.envs.base import Env, SubjectEnv, subject_of
from fedse.errors import ConfigError, FedSEError, TrainError
from fedse.faults import Fault
from fedse.method.site import Fit, Site
from fedse.privacy.accountant import Charge, epsilon_of, is_within
from fedse.privacy.plan import charge_of, planned_noise
from fedse.protocol import SiteReply
from fedse.results.alarms import clip_alarms
from fedse.site.steps import Asked, Next
from fedse.store.privacy_journal import PrivacyJournal
from fedse.types import Adapter, ClientStats, ClientUpdate, Fitted, Lessons, Trajectory, digest_of

Units = tuple[tuple[int, ...], ...]
"""The places of the lessons of each unit."""
MOST_ROUNDS = 1000
HELD_OUT = ("eval", "home", "validation")
REPORTED = {"steps", *(f"{kind}_{what}" for kind in HELD_OUT for what in ("played", "succeeded"))}
"""Numbers of a reply that the buffer has no part in, but through adapters made with noise: how long
training is, and games in tasks that are not learned from."""
PERSONAL = {f"personal{home}_{what}" for home in ("", "_home") for what in ("played", "succeeded")}
"""Numbers of an adapter that was made without noise."""


class PrivacySpent(FedSEError):
    """The next adapter would tell more than the site allows; only the fault number leaves it."""

    exit_code = Fault.PRIVACY_SPENT


class Charged(NamedTuple):
    """A fit that is on record."""

    charge: Charge
    units: Units
    secret: bytes


class PrivateTraining:
    """A site's training with noise, in one round; training whose result stays here is unchanged."""

    def __init__(
        self, site: Site, config: Config, round: int, *, draw: Callable[[], bytes] = token_bytes
    ) -> None:
        self._site, self._config, self._round, self._draw = site, config, round, draw
        self.results: set[str] = set()
        """Digests of the adapters that were made with noise."""
        self.longest = 0.0
        """The norm of the longest gradient of a unit; 0 = nothing was learned."""

    def allowed(self, update: ClientUpdate) -> ClientUpdate:
        """What of the update may leave: the adapter was made here, and no number tells more."""
        if update.adapter and update.adapter.digest not in self.results:
            raise TrainError("an adapter was made without noise, so it does not leave the site")
        return ClientUpdate(reported(update.stats, self._config), update.adapter)

    def fit(
        self, start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
    ) -> Fitted:
        """As the site's own, with noise that was charged, unless the result stays here."""
        if course.stays:
            return self._site.fit(start, lessons, settings, seed, course)
        charge, units, secret = self.charged(start, lessons, settings, course)
        private = course_of(charge, units, self._config, secret)
        fitted = self._site.fit(start, lessons, settings, seed, course._replace(private=private))
        self.results.add(fitted.adapter.digest)
        self.longest = max(self.longest, fitted.longest)
        return fitted

    def charged(
        self, start: Adapter, lessons: Lessons, settings: TrainSection, course: Course
    ) -> Charged:
        """What this fit costs and learns from, and the secret of its noise, on record with it."""
        charge = charge_of(self._config, self._round, settings)
        identity = self._identity(start, lessons, settings, course)
        # What cannot be divided into units is found out before it is charged.
        units = units_of(lessons, self._site, self._config)
        return Charged(charge, units, self._secret(identity, charge))

    def _secret(self, identity: str, charge: Charge) -> bytes:
        journal = self._site.buffer.outbox.privacy
        known = journal.secret(identity)
        if known is not None:
            return known
        require_within_budget(journal, charge, self._config)
        made = self._draw()
        journal.charge(identity, charge, made)
        return made

    def _identity(
        self, start: Adapter, lessons: Sequence[Trajectory], settings: TrainSection, course: Course
    ) -> str:
        """Equal for two fits that cannot differ in anything."""
        config = self._config
        moments = (course.moments or b"").hex()
        parts = [settings, config.privacy, config.trainer, config.client(self._site.client)]
        parts += [config.step] if config.step.on else []
        return digest_of(
            [
                [__version__, config.run.name, self._round, config.rollout.context],
                [start.spec.identity, start.digest, list(course.arc), moments],
                [part.model_dump(mode="json") for part in parts],
                [lesson.digest for lesson in lessons],
            ]
        )


def course_of(charge: Charge, units: Units, config: Config, secret: bytes) -> PrivateCourse:
    """How a fit of these units is made that costs `charge`."""
    clip = config.privacy.clip
    return PrivateCourse(units, charge.rate, charge.steps, clip, charge.noise, secret)


def rehearsing(site: Site, config: Config, round: int) -> Fit:
    """Trains as an answer to that round would be trained, with noise that anybody can make again.

    So nothing is charged, and the result must not leave the site.
    """

    def fit(
        start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
    ) -> Fitted:
        charge = charge_of(config, round, settings)
        secret = bytes.fromhex(digest_of(["rehearsal", seed]))
        private = course_of(charge, units_of(lessons, site, config), config, secret)
        return site.fit(start, lessons, settings, seed, course._replace(private=private))

    return fit


def units_of(lessons: Sequence[Trajectory], site: Site, config: Config) -> Units:
    """The places of the lessons of each unit, in the order in which units first come."""
    if config.privacy.unit == "episode":
        return tuple((place,) for place in range(len(lessons)))
    env = site.make_env()
    try:
        units: dict[str, list[int]] = {}
        for place, lesson in enumerate(lessons):
            subject = subject_of(env, lesson.task)
            if subject is None:
                raise _nameless(env)
            units.setdefault(subject, []).append(place)
    finally:
        env.close()
    return tuple(map(tuple, units.values()))


def require_plan(config: Config, env: Env) -> None:
    """There is noise for the budget, and what is to be protected has a name, before any work."""
    if not config.privacy.on:
        if config.step.on:
            raise ConfigError(
                "step.units needs privacy.epsilon: how much this site lets all steps tell about a "
                "unit",
                hint="set it in [privacy], at a site in its site.toml; see "
                "docs/how-to/differential-privacy.md",
            )
        return
    planned_noise(config)
    if config.privacy.unit == "subject" and not isinstance(env, SubjectEnv):
        raise _nameless(env)


def _nameless(env: Env) -> ConfigError:
    return ConfigError(
        'privacy.unit = "subject" needs an environment that names the subject of a task, '
        f"{env.name} does not",
        hint='give it a method subject(task), or set privacy.unit = "episode"',
    )


def require_within_budget(journal: PrivacyJournal, charge: Charge, config: Config) -> None:
    """With this charge, no more is told about any unit than the site allows."""
    spent = spent_with(journal, config, charge)
    if not is_allowed(spent, config):
        raise PrivacySpent(
            f"round {charge.round} would bring what was told to epsilon = {spent:.4g}, allowed is "
            f"{config.privacy.epsilon:g}",
            hint="fedse privacy budget shows what was spent, and for what",
        )


def spent_with(journal: PrivacyJournal, config: Config, *charges: Charge) -> float:
    """What was told about one unit, if these were charged too.

    A charge that protected episodes one by one does not protect a person who has several.
    """
    journal.note_unprotected()
    told = [*journal.charges(), *charges]
    if config.privacy.unit == "subject" and any(charge.unit == "episode" for charge in told):
        return math.inf
    return epsilon_of(told, delta=config.privacy.delta)


def rounds_left(journal: PrivacyJournal, config: Config) -> int:
    """How many more rounds, as the settings are now, the budget allows; at most MOST_ROUNDS."""
    charge = charge_of(config, 1, config.train)

    def is_spent(rounds: int) -> bool:
        return not is_allowed(spent_with(journal, config, *[charge] * rounds), config)

    return bisect_left(range(1, MOST_ROUNDS + 1), True, key=is_spent)


def spend_privacy(asked: Asked, rest: Next) -> SiteReply:
    """The question is answered without training if the budget does not allow another fit."""
    question = asked.question
    if not question.trains or asked.is_finished():
        return rest(asked)
    if may_train(asked.site, asked.config, question.round):
        return rest(asked)
    asked.emit("site.spent", client=asked.site.client, round=asked.question.round)
    return rest(asked.without_training())._replace(fault=Fault.PRIVACY_SPENT)


def train_with_noise(asked: Asked, rest: Next) -> SiteReply:
    """The question is answered with training that was charged; no other adapter leaves.

    How long gradients are follows from single units: the site's own log has it, and no reply.
    """
    site, round = asked.site, asked.question.round
    training = PrivateTraining(site, asked.config, round)
    done = rest(replace(asked, fit=training.fit, allowed=training.allowed, noise=True))
    for name, text, then in clip_alarms(training.longest, asked.config, site.client):
        asked.emit("site.alarm", client=site.client, round=round, alarm=name, text=text, next=then)
    return done


def may_train(site: Site, config: Config, round: int) -> bool:
    """Whether the budget allows a fit in this round; one under way was charged already."""
    journal = site.buffer.outbox.privacy
    if journal.is_under_way(config.run.name, round):
        return True
    spent = spent_with(journal, config, charge_of(config, round, config.train_in(round)))
    return is_allowed(spent, config)


def is_allowed(spent: float, config: Config) -> bool:
    """Whether so much may be told about one unit."""
    return is_within(config.privacy.epsilon or 0.0, spent)


def reported(stats: ClientStats, config: Config) -> ClientStats:
    """What of a round's numbers may leave with an adapter that was made with noise."""
    if config.privacy.counts:
        return stats.model_copy(update={"loss": None, "roles": (), **dict.fromkeys(PERSONAL, 0)})
    return ClientStats(**stats.model_dump(include=REPORTED))
