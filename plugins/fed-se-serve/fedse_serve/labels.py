"""Whether a session was a success, as far as is known: from what was reported about it so far.

No report is never a success. A session is a failure as soon as one metric or verifier says so, and
a success if at least one says so and the others say the same or have had their time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from fedse_serve.rows import StoredFeedback, StoredSession
from fedse_serve.settings import Metric, ServiceSettings

DAY, MINUTE = 86_400.0, 60.0
"""Seconds."""
VERDICT = Metric(type="boolean", wait_days=7.0)
"""What a verifier says counts as a boolean metric's value."""
State = Literal["waiting", "labelled", "unlabelled"]


class Label(NamedTuple):
    """What is known of a session."""

    state: State
    """`unlabelled` = there was no report in time."""
    success: bool | None
    since: float | None
    """When the label was there: with the report that decided, or when the others were too late."""


WAITING = Label("waiting", None, None)


def ended_at(session: StoredSession, settings: ServiceSettings, now: float) -> float | None:
    """When the session ended; None = it goes on."""
    if session.ended is not None:
        return session.ended
    idle = session.last + settings.idle_minutes * MINUTE
    return idle if idle <= now else None


def deciding(settings: ServiceSettings) -> Mapping[str, Metric]:
    """The metrics and verifiers that say what a session was."""
    metrics = {name: metric for name, metric in settings.metrics.items() if metric.decides}
    return {**metrics, **dict.fromkeys(settings.verifiers, VERDICT)}


def label_of(
    session: StoredSession,
    feedback: Sequence[StoredFeedback],
    settings: ServiceSettings,
    now: float,
) -> Label:
    """The session's label at `now`; it waits while it goes on."""
    ended = ended_at(session, settings, now)
    if ended is None:
        return WAITING
    metrics = deciding(settings)
    known = [one for one in feedback if one.metric in metrics and one.at <= now]
    newest = {(one.metric, one.inference): one for one in sorted(known, key=lambda one: one.at)}
    said = [
        (metrics[one.metric].judged(one.value), one.at)
        for one in newest.values()
        if isinstance(one.value, bool | int | float)
    ]
    if failures := [at for success, at in said if not success]:
        return Label("labelled", False, max(ended, min(failures)))
    heard = {one.metric for one in newest.values()}
    ends = [ended + metric.wait_days * DAY for name, metric in metrics.items() if name not in heard]
    if any(end > now for end in ends):
        return WAITING
    if not said:
        return Label("unlabelled", None, None)
    return Label("labelled", True, max([ended, *ends, *(at for _, at in said)]))


def first_label(
    session: StoredSession,
    feedback: Sequence[StoredFeedback],
    settings: ServiceSettings,
    now: float,
) -> Label:
    """The first label that the session had, whatever was said later; that of `now` if it has none.

    A trial counts it: evidence that was looked at must not change afterwards.
    """
    ended = ended_at(session, settings, now)
    if ended is None:
        return WAITING
    ends = [ended + metric.wait_days * DAY for metric in deciding(settings).values()]
    for time in sorted({ended, *ends, *(one.at for one in feedback)}):
        if ended <= time <= now:
            label = label_of(session, feedback, settings, time)
            if label.state == "labelled":
                return label
    return label_of(session, feedback, settings, now)


class Coverage(NamedTuple):
    """Sessions of one arm."""

    labelled: int
    unlabelled: int
    waiting: int

    @property
    def share(self) -> float | None:
        """Of the sessions that need not be waited for, how many have a label."""
        over = self.labelled + self.unlabelled
        return self.labelled / over if over else None


def coverage(labels: Iterable[tuple[str, Label]]) -> dict[str, Coverage]:
    """By arm, from the arm and the label of each session."""
    counts = Counter((arm, label.state) for arm, label in labels)
    return {
        arm: Coverage(*(counts[arm, state] for state in ("labelled", "unlabelled", "waiting")))
        for arm in sorted({arm for arm, _ in counts})
    }
