"""`fedse federation`: create one, invite its sites, start it, see who answered."""

import secrets
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from fedse.api.engines import fan_out
from fedse.cli.agreement import amend
from fedse.cli.approvals import As, Key, approved
from fedse.cli.connections import connections_told, enrolment_lines, sites_now
from fedse.cli.console import shown
from fedse.cli.coordinator_keys import effect, expiries, pardon, renew
from fedse.cli.coordinator_page import PageOption, page_served
from fedse.cli.display import Json, Plain, mode_of, print_aside
from fedse.cli.federation_create import create
from fedse.cli.federation_options import HERE, Folder, SiteName, opened
from fedse.cli.federation_status import status
from fedse.cli.federation_view import fresh_view
from fedse.cli.result import print_result
from fedse.cli.run import Metrics, watched
from fedse.errors import ConfigError, Interrupted
from fedse.federation.security import EventName, note, noted, refusals_noted
from fedse.observers.follow import followed
from fedse.results.outcome import result_of
from fedse.store.next_round import ask_to_stop
from fedse.store.run_folder import open_run, run_config

app = App(name="federation", help_format="plaintext", help_epilogue="")

LOG, AGAIN = "events.jsonl", "fedse federation start --dir"


app.command(create)


@app.command
def invite(
    site: SiteName,
    /,
    *,
    dir_: Folder = HERE,
    hours: Annotated[float, Parameter(help="How long the invitation is valid.")] = 72.0,
    as_: As = None,
    key: Key = None,
) -> None:
    """Write one signed file for a site; it is valid for one enrolment.

    Example: fedse federation invite clinic-a --hours 24
    """
    if not 0 < hours < float("inf"):
        raise ConfigError(f"--hours must be more than 0, got {hours}")
    federation = opened(dir_)
    with approved(federation, "invite", site, as_, key) as now:
        if now:
            from fedse.federation import folder

            nonce, moment = secrets.token_hex(16), int(time.time())
            file = folder.invite(federation, site, nonce=nonce, now=moment, hours=hours)
            todo = f"send this file to {site} over a private channel"
            print(f"{file}\n{todo}: anyone who holds it can enrol in its place")


@app.command
def enrol(
    request: Annotated[
        Path, Parameter(help="enrolment.json or rotation.json, as the site sent it.")
    ],
    /,
    *,
    dir_: Folder = HERE,
) -> None:
    """Put a site's key on the list, or its new key in place of the old one.

    A running SuperLink accepts the key at once. A request for a new key must be signed with the
    enrolled one; the site then switches to the new key by itself.

    Example: fedse federation enrol clinic-a-enrolment.json
    """
    federation = opened(dir_)
    from fedse.federation import folder, renewal, rotation

    with refusals_noted(federation.path, "enrolment.refused", clock=time.time):
        asked = rotation.read_either(request)
        anew = isinstance(asked, rotation.RotationRequest)
        if isinstance(asked, rotation.RotationRequest):
            renewal.rotate(federation, asked)
        else:
            folder.enrol(federation, asked, now=time.time())
    event: EventName = "key.changed" if anew else "site.enrolled"
    note(federation.path, event, site=asked.site, clock=time.time)
    print(f"{asked.site} {'has a new key' if anew else 'is enrolled'}{effect(federation)}")


@app.command
def revoke(site: SiteName, /, *, dir_: Folder = HERE, as_: As = None, key: Key = None) -> None:
    """Remove a site's key permanently; a running SuperLink disconnects the site at once.

    Example: fedse federation revoke clinic-a
    """
    federation = opened(dir_)
    with approved(federation, "revoke", site, as_, key) as now:
        if now:
            from fedse.federation import folder

            folder.revoke(federation, site)
            print(f"{site} is revoked{effect(federation)}")


app.command(renew)
app.command(pardon)
app.command(amend)


@app.command
def start(
    *,
    dir_: Folder = HERE,
    wait: Annotated[float, Parameter(help="Seconds to wait for sites in the first round.")] = 600.0,
    proxy: Annotated[bool, Parameter(negative="--no-proxy", help="Start nginx as well.")] = True,
    metrics: Metrics = None,
    page: PageOption = None,
    json: Json = False,
    plain: Plain = False,
) -> None:
    """Serve the sites and run all rounds; after a stop or a crash, continue from the last one.

    Any process that ends early is restarted, including the round loop. The address of a page that
    shows who is connected and doing what is printed on stderr.
    Example: fedse federation start --wait 1800
    """
    federation, mode = opened(dir_), mode_of(sys.stderr, json=json, plain=plain)
    from fedse.flower.ops.serve_federation import serving

    config, log = run_config(federation.run), federation.run / LOG
    patience = config.aggregate.deadline + wait  # between two events: the wait, a whole round
    print_aside(*enrolment_lines(federation))
    ends, sites, view = expiries(federation), partial(sites_now, federation), fresh_view(federation)
    try:
        with (
            watched(metrics, patience, expiries=ends, sites=sites) as watchers,
            page_served(page, federation, view, patience=patience, tell=print_aside) as on_page,
            serving(federation, proxy=proxy, tell=print_aside) as server,
            shown(mode, config, log=log, seen=lambda: view().words) as observer,
            nullcontext() if mode == "live" else connections_told(view, tell=print_aside),
            followed(log, fan_out([observer, *watchers, *on_page, noted(dir_, clock=time.time)])),
        ):
            server.run(wait=wait)
    except KeyboardInterrupt:
        raise Interrupted("stopped; what was committed is kept", hint=f"{AGAIN} {dir_}") from None
    with open_run(federation.run) as run:
        print_result(result_of(run), mode)


app.command(status)


@app.command
def stop(
    *,
    dir_: Folder = HERE,
    after_round: Annotated[
        bool, Parameter(negative="", help="Let the open round be committed first.")
    ] = False,
) -> None:
    """End a running server between two rounds; `federation start` goes on from there.

    Example: fedse federation stop --after-round
    """
    federation = opened(dir_)
    from fedse.federation.heard import is_served

    if not is_served(federation):
        raise ConfigError(f"no server runs for {dir_}, so there is nothing to stop")
    if not after_round:
        raise ConfigError(
            "a round may be open, whose work so far would have to be asked for again",
            hint="--after-round; to stop at once, end `fedse federation start`: Ctrl-C",
        )
    ask_to_stop(federation.run)
    print("the server stops when no round is open")
