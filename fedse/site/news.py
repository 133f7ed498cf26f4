"""Whether a site has something new to learn from: it says yes or no, and nothing changes here.

The answer may be another one a minute later, so it is neither kept in the outbox nor in the ledger,
and it takes nothing from the budget of the site's rules.
"""

from fedse.envs.base import NewsEnv
from fedse.errors import EnvError, boundary
from fedse.protocol import NEWS, SiteReply
from fedse.site.door import require_left
from fedse.site.steps import Asked, Next
from fedse.types import ClientStats


def tell_news(asked: Asked, rest: Next) -> SiteReply:
    """One byte if there is something new and the site could answer the round, else nothing."""
    require_left(asked)
    env = asked.site.make_env()
    with boundary(EnvError, f"{env.name}.has_news()"):
        try:
            has = not isinstance(env, NewsEnv) or env.has_news()
        finally:
            env.close()
    return SiteReply(ClientStats(), NEWS if has else None)
