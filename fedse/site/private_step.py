"""A site's part of a private step: charged, then added up, then hidden in its share of the noise.

The noise is made of a secret that is on record with the charge, and the answer is in the outbox
before it leaves. So a site that was killed anywhere answers a round with the same numbers, and
never with the same gradients under another noise. A site without a unit sends noise only: to be
silent would tell that it has none.
"""

from dataclasses import replace

from fedse.aggregate.factors import travelling_spec
from fedse.blocks import span_of
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course, StepCourse
from fedse.errors import ConfigError, TrainError
from fedse.method.site import Site
from fedse.protocol import SiteReply
from fedse.secure_sum.messages import masked_to_bytes
from fedse.secure_sum.private_step import encode_step, step_form
from fedse.site.private_training import PrivateTraining, reported
from fedse.site.steps import Asked, Next
from fedse.types import Adapter, ClientUpdate, Fitted, Lessons


class PrivateStep:
    """What a site adds to the step of one round."""

    def __init__(self, site: Site, config: Config, round: int) -> None:
        self._site, self._config = site, config
        self._training = PrivateTraining(site, config, round)
        self._numbers: bytes | None = None

    def fit(
        self, start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
    ) -> Fitted:
        """The adapter is as it was: it moves when the server has the sum.

        Training whose result stays here is unchanged.
        """
        if course.stays:
            return self._site.fit(start, lessons, settings, seed, course)
        if self._site.gradients is None:
            raise ConfigError(
                f"{self._site.client} has no model of its own, so it cannot add to a private step",
                hint="--set step.units=0",
            )
        charged = self._training.charged(start, lessons, settings, course)
        form, part = step_form(self._config), travelling_spec(start.spec, self._config)
        given = StepCourse(charged.units, form.clip, form.unit)
        found = self._site.gradients(start, lessons, given, part)
        voted = self._config.roles.blocks_voted_on(self._config.client(self._site.client).roles)
        for block in {*part.blocks} - {*voted}:
            # Its share of the noise is added there all the same: the sum needs it.
            found.total[span_of(part, block)] = 0
        self._numbers = masked_to_bytes(encode_step(found.total, form, charged.secret))
        return Fitted(start, found.loss, steps=1)

    def allowed(self, update: ClientUpdate) -> ClientUpdate:
        """No number of the update tells more than the noise allows."""
        return ClientUpdate(reported(update.stats, self._config), update.adapter)

    def sent(self, adapter: Adapter, config: Config, client: str) -> bytes:
        """The numbers that leave in place of an adapter."""
        if self._numbers is None:
            raise TrainError("a step was made without noise, so it does not leave the site")
        return self._numbers


def step_with_noise(asked: Asked, rest: Next) -> SiteReply:
    """The question is answered with a step that was charged; no adapter leaves."""
    step = PrivateStep(asked.site, asked.config, asked.question.round)
    return rest(replace(asked, fit=step.fit, allowed=step.allowed, sent=step.sent, noise=True))
