"""`fedse federation`: make one, invite its sites, start it, see who answered."""

import json as json_format
import secrets
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from fedse.api.engines import fan_out
from fedse.cli.console import shown
from fedse.cli.display import Json, Plain, mode_of
from fedse.cli.result import print_result
from fedse.cli.run import Metrics, Set, watched
from fedse.config.file import load_config
from fedse.errors import Interrupted, require_packages
from fedse.observers.follow import followed
from fedse.ports import LINK_PORT, PROXY_PORT
from fedse.results.outcome import result_of
from fedse.store.run_folder import open_run

if TYPE_CHECKING:
    from fedse.federation.folder import Federation

app = App(name="federation", help_format="plaintext", help_epilogue="")

Folder = Annotated[Path, Parameter(name="--dir", help="The federation's folder.")]
SiteName = Annotated[str, Parameter(help="A client of the experiment.")]
HERE, LOG = Path("federation"), "events.jsonl"


def require_flower() -> None:
    """What a federation needs is installed, or the error says which line installs it."""
    require_packages("a federation", "flwr", "cryptography", extra="flower")


@app.command
def create(
    config: Annotated[Path, Parameter(help="The experiment file; its clients are the sites.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The new folder.")] = HERE,
    host: Annotated[str, Parameter(help="Name or address by which sites reach the server.")],
    port: Annotated[int, Parameter(help="The only port that sites must reach.")] = PROXY_PORT,
    link_port: Annotated[
        int, Parameter(help="Port of the SuperLink on the loopback address.")
    ] = LINK_PORT,
    set_: Set = [],  # noqa: B006  only read
) -> None:
    """Make authority, certificate, list of sites, run and nginx configuration; start nothing.

    Example: fedse federation create my.toml --out federation --host fed.example.org
    """
    require_flower()
    from fedse.federation import folder
    from fedse.flower.messages.bundle import own_digest

    settings, now = load_config(config, set_), datetime.now(UTC)
    card = folder.Card(
        name=settings.run.name,
        host=host,
        port=port,
        link_port=link_port,
        bundle=own_digest(),
        fingerprint="",
    )
    given = config.read_text()
    made = folder.create(out, settings, given=given, card=card, now=now, clock=time.time)
    print(f"federation   {made.card.name}, {len(settings.clients)} sites, {out}")
    print(f"fingerprint  {made.card.fingerprint}  (read it to the sites over the phone)")
    print(f"next         fedse federation invite {settings.clients[0].name} --dir {out}")


@app.command
def invite(
    site: SiteName,
    /,
    *,
    dir_: Folder = HERE,
    hours: Annotated[float, Parameter(help="How long the invitation is valid.")] = 72.0,
) -> None:
    """Write one signed file for a site; it is valid for one enrolment.

    Example: fedse federation invite clinic-a --hours 24
    """
    require_flower()
    from fedse.federation import folder

    federation = folder.open_federation(dir_)
    file = folder.invite(
        federation, site, nonce=secrets.token_hex(16), now=int(time.time()), hours=hours
    )
    todo = f"send this file to {site} over a private channel"
    print(f"{file}\n{todo}: whoever holds it can enrol in its place")


@app.command
def enrol(
    request: Annotated[Path, Parameter(help="enrolment.json, as the site sent it.")],
    /,
    *,
    dir_: Folder = HERE,
) -> None:
    """Put a site's key on the list; a running SuperLink accepts it at once.

    Example: fedse federation enrol clinic-a-enrolment.json
    """
    require_flower()
    from fedse.federation import folder
    from fedse.federation.enrolment import read_request

    federation, enrolment = folder.open_federation(dir_), read_request(request)
    folder.enrol(federation, enrolment, now=time.time())
    print(f"{enrolment.site} is enrolled{_effect(federation)}")


@app.command
def revoke(site: SiteName, /, *, dir_: Folder = HERE) -> None:
    """Remove a site's key from the list for good; a running SuperLink cuts the site off at once.

    Example: fedse federation revoke clinic-a
    """
    require_flower()
    from fedse.federation import folder

    federation = folder.open_federation(dir_)
    folder.revoke(federation, site)
    print(f"{site} is revoked{_effect(federation)}")


def _effect(federation: "Federation") -> str:
    """When a change of the list takes effect; at once where the server runs."""
    from fedse.flower.ops.serve_federation import sync_nodes

    if sync_nodes(federation):
        return ", effective now"
    start = f"fedse federation start --dir {federation.path}"
    return f"; the server is not running, this takes effect with: {start}"


@app.command
def start(
    *,
    dir_: Folder = HERE,
    wait: Annotated[float, Parameter(help="Seconds to wait for sites in the first round.")] = 600.0,
    proxy: Annotated[bool, Parameter(negative="--no-proxy", help="Start nginx as well.")] = True,
    metrics: Metrics = None,
    json: Json = False,
    plain: Plain = False,
) -> None:
    """Serve the sites and run all rounds; after a stop or a crash, continue after the last one.

    Whatever ends on the way is started again, including the round loop.
    Example: fedse federation start --wait 1800
    """
    require_flower()
    from fedse.federation import folder
    from fedse.flower.ops.serve_federation import serving

    federation, mode = folder.open_federation(dir_), mode_of(sys.stderr, json=json, plain=plain)
    config, log = load_config(federation.run / "config.resolved.toml"), federation.run / LOG
    try:
        with (
            # Between two events may lie the wait for sites and a whole round.
            watched(metrics, config.aggregate.deadline + wait) as watchers,
            serving(federation, proxy=proxy, tell=print_aside) as server,
            shown(mode, config, log=log, loads_model=False) as observer,
            followed(log, fan_out([observer, *watchers])),
        ):
            server.run(wait=wait)
    except KeyboardInterrupt:
        again = f"fedse federation resume --dir {dir_}"
        raise Interrupted("stopped; what was committed is kept", hint=again) from None
    with open_run(federation.run) as run:
        print_result(result_of(run), mode)


app.command(
    start,
    name="resume",
    help="Continue after the last committed round; the same as start.\n\n"
    "Example: fedse federation resume --dir federation",
)


def print_aside(line: str) -> None:
    """The line is on stderr; stdout is for results."""
    print(line, file=sys.stderr, flush=True)


@app.command
def status(*, dir_: Folder = HERE, json: Json = False) -> None:
    """Show which sites are enrolled, the last round, and who answered in it.

    Example: fedse federation status --json
    """
    require_flower()
    from fedse.federation import folder

    report = status_of(folder.open_federation(dir_), now=time.time())
    if json:
        print(json_format.dumps(report))
        return
    print(f"{report['federation']} at {report['server']}, key {report['fingerprint']}")
    print(f"round {report['round']} of {report['rounds']}")
    for site in report["sites"]:
        print(f"  {site['name']:<16}  {site['state']:<12}  {site['last'] or '-'}")


def status_of(federation: "Federation", *, now: float) -> dict[str, Any]:
    """The list and the last committed round, by site."""
    card = federation.card
    with closing(open_run(federation.run, clock=time.time)) as run:
        results, rounds = list(run.results()), run.config.run.rounds
    last = results[-1] if results else None
    answers: dict[str, str] = {}
    if last:
        answers |= {e.client: f"excluded: {e.text}" for e in last.excluded}
        answers |= dict.fromkeys(last.absent, "absent")
        answers |= dict.fromkeys(last.abstained, "answered without a vote")
        answers |= dict.fromkeys(last.voters, "voted")
    sites = [
        {
            "name": name,
            "state": "expired" if m.state == "invited" and now >= m.expires else m.state,
            "last": answers.get(name, ""),
        }
        for name, m in sorted(federation.sites.members.items())
    ]
    head = {"federation": card.name, "server": f"{card.host}:{card.port}"}
    progress = {"round": last.index if last else 0, "rounds": rounds}
    return {**head, "fingerprint": card.fingerprint, **progress, "sites": sites}
