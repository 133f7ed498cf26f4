"""`fedse site status`: is the site taking part? Also the health check of a container."""

import json as json_format

from fedse.cli.display import Json
from fedse.cli.site_options import HERE, HomeOption, opened
from fedse.errors import RunError


def status(*, home: HomeOption = HERE, json: Json = False) -> None:
    """Show which processes of the site are running; fail if its worker is not (a health check).

    A site whose coordinator is unreachable is healthy: its node keeps trying to connect.

    Example: fedse site status --home site
    """
    site = opened(home)
    from fedse.flower.ops.site_state import site_state

    state = site_state(site)
    if json:
        print(json_format.dumps({"site": site.card.site, **state._asdict()}))
    else:
        print(f"{site.card.site} of {site.card.federation}, server {site.card.server}")
        print(f"worker   {'running' if state.worker else 'not running'}")
        print(f"node     {'running' if state.node else 'not running'}")
        print(f"server   {state.line or 'unknown'}")
        print(f"let in   {'yes' if state.let_in else 'not yet: is the site enrolled?'}")
        print(f"paused   {'yes' if state.paused else 'no'}")
        for number in state.proposed:
            print(f"consent  agreement {number} waits for you: fedse site agreement --home {home}")
    if not state.worker:
        raise RunError(
            f"the site in {home} is not taking part: its worker is not running",
            hint=f"fedse site start --home {home}",
        )
