"""A site removes episodes that are older than it keeps them, before it does what it is asked."""

from fedse.ledger.record import note_removal
from fedse.protocol import SiteReply
from fedse.site.steps import Asked, Next

DAY_SECONDS = 86_400.0


def remove_old(asked: Asked, rest: Next) -> SiteReply:
    """What is older than `storage.days` is gone, and the ledger says so; then the rest is done.

    A round is given its age when it has been answered, so by no question that was refused.
    """
    site, days = asked.site, asked.config.storage.days
    if not days or site.home is None:
        return rest(asked)
    old = site.buffer.old
    if last := old.last_before(site.clock() - days * DAY_SECONDS):
        if any(count := old.count(last)):
            note_removal(site.home, site.client, last, count, days=days, clock=site.clock)
        old.remove(last)
    reply = rest(asked)
    if asked.is_finished():
        old.note_answered(asked.question.experiment, asked.question.round, site.clock())
    return reply
