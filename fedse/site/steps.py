"""A site's answer is made in steps, each of which may answer, refuse, or ask the next one.

A step is a function of what was asked and of the rest of the steps, as a middleware is. What a site
does for a question is a tuple of steps (`site/answer.py`), so a new concern is one more of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fedse.aggregate.factors import vote_bytes
from fedse.audit.verdict import AuditRules
from fedse.config.schema import Config
from fedse.errors import WireError
from fedse.events import Emit
from fedse.method.site import Fit, Site
from fedse.protocol import Question, SiteReply
from fedse.site.rules import SiteRules
from fedse.types import Adapter, ClientUpdate


@dataclass(frozen=True)
class Asked:
    """A question, the message beside it, and who is asked."""

    question: Question
    body: bytes
    site: Site
    config: Config
    emit: Emit
    rules: SiteRules | None = None
    """The site's own; None = it has none."""
    policy: Path | None = None
    """The file of these rules."""
    audit: AuditRules | None = None
    current: Adapter | None = None
    """The adapter that the question is about, once it has been checked."""
    fit: Fit | None = None
    """How the site trains for an answer that leaves; None = as always."""
    allowed: Callable[[ClientUpdate], ClientUpdate] = lambda update: update
    """What of the work may leave the site."""
    sent: Callable[[Adapter, Config, str], bytes] = vote_bytes
    """What leaves in place of an adapter that may leave."""
    noise: bool = False
    """Whether training is charged to the site's privacy budget, and made with noise."""

    @property
    def key(self) -> tuple[str, int, str]:
        """Of the answer, in the outbox and in the ledger."""
        return self.question.experiment, self.question.round, self.question.digest

    @property
    def adapter(self) -> Adapter:
        assert self.current is not None, "check_adapter comes before every step that needs it"
        return self.current

    def finished(self) -> SiteReply | None:
        """The stored answer to this question, if it was worked on before."""
        return self.site.buffer.outbox.finished(*self.key)

    def is_finished(self) -> bool:
        """Whether there is a stored answer to this question; its adapter is not read."""
        return self.site.buffer.outbox.is_finished(*self.key)

    def without_training(self) -> "Asked":
        """The same question, to be answered with measurements alone."""
        return replace(self, question=self.question.model_copy(update={"kind": "evaluate"}))


Next = Callable[[Asked], SiteReply]
Step = Callable[[Asked, Next], SiteReply]


def through(steps: Sequence[Step], asked: Asked) -> SiteReply:
    """What the steps answer, the first of them outermost."""
    rest: Next = _unanswered
    for step in reversed(steps):
        rest = partial(_taken, step, rest)
    return rest(asked)


def _taken(step: Step, rest: Next, asked: Asked) -> SiteReply:
    return step(asked, rest)


def _unanswered(asked: Asked) -> SiteReply:
    raise WireError(f"no step answers a question of kind {asked.question.kind}")
