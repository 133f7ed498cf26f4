"""`fedse site status`: does the site take part; also the health check of a container."""

import json as json_format

from fedse.cli.display import Json
from fedse.cli.site_options import HERE, HomeOption, opened
from fedse.errors import RunError


def status(*, home: HomeOption = HERE, json: Json = False) -> None:
    """Show what of the site runs; fails if its worker does not, so it serves as a health check.

    A site whose coordinator is away is well: its node is started again until it is let in.

    Example: fedse site status --home site
    """
    site = opened(home)
    from fedse.flower.ops.site_state import site_state

    state = site_state(site)
    if json:
        print(json_format.dumps({"site": site.card.site, **state._asdict()}))
    else:
        print(f"{site.card.site} of {site.card.federation}, server {site.card.server}")
        print(f"worker   {'runs' if state.worker else 'does not run'}")
        print(f"node     {'runs' if state.node else 'does not run'}")
        print(f"server   {state.line or 'not known'}")
        print(f"let in   {'yes' if state.let_in else 'not yet: is the site enrolled?'}")
        print(f"paused   {'yes' if state.paused else 'no'}")
    if not state.worker:
        raise RunError(
            f"the site in {home} does not take part: no worker runs",
            hint=f"fedse site start --home {home}",
        )
