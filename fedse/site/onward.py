"""Training that goes on with what AdamW remembered when the site's last round was answered.

The moments stay in the client's own buffer. They are stored with the answer, in one transaction: a
round that is answered again does not move them, and one that was killed before its answer was
stored begins with the same moments and ends with the same adapter.
"""

from functools import partial

from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.method.site import Site
from fedse.types import Adapter, Fitted, Lessons


class OnwardTraining:
    """The site's training in one round; `moments` are those it ended with, if they are kept."""

    def __init__(self, site: Site, experiment: str, round: int, *, since: int = 1) -> None:
        """`since` is the first round of the base model, whose moments fit."""
        self._site = site
        self._last = partial(site.buffer.outbox.moments, experiment, before=round, since=since)
        self.moments: bytes | None = None

    def fit(
        self, start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
    ) -> Fitted:
        """As the site's own, from the moments of its last round before this one."""
        course = course._replace(moments=settings.moments(self._last))
        fitted = self._site.fit(start, lessons, settings, seed, course)
        self.moments = fitted.moments
        return fitted
