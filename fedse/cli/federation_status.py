"""`fedse federation status`: who is connected and doing what, the last rounds, what expires."""

import json as json_format
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedse.cli.display import Json, print_aside
from fedse.cli.federation_options import HERE, Folder, opened
from fedse.cli.federation_view import FederationView, SiteView, view_of
from fedse.cli.phrases import clock_time
from fedse.config.rounds import out_of

if TYPE_CHECKING:
    from fedse.federation.heard import SitePresence

MOST_SITES = 100


def status(*, dir_: Folder = HERE, json: Json = False) -> None:
    """Show who is connected, since when and doing what, the last round, and what expires soon.

    Example: fedse federation status --json
    """
    view = view_of(opened(dir_), now=time.time())
    if json:
        print(json_format.dumps(view.facts()))
        return
    print("\n".join(status_lines(view)))
    print_aside(*(f"warning: {line}" for line in view.warnings))


def status_lines(view: FederationView) -> Iterator[str]:
    """The view for people; what sites do now is known only while the federation is served."""
    yield f"{view.federation} at {view.server}, key {view.fingerprint}"
    yield f"round {out_of(view.round, view.rounds)}"
    if view.serving:
        yield view.waiting
    for one in view.agreements:
        waits = f"; waits for {', '.join(one['lacking'])}" if one["lacking"] else ""
        by = ", ".join(one["accepted"]) or "nobody yet"
        yield f"agreement {one['number']}, from round {one['since']} on: accepted by {by}{waits}"
    shown = worth_a_look(view.sites)
    for site in shown:
        doing = f"  {presence_text(site.now, now=view.time):<34}" if view.serving else ""
        yield f"  {site.name:<16}  {site.state:<12}{doing}  {site.last or '-'}"
    if more := len(view.sites) - len(shown):
        yield f"  and {more:,} more sites; --json has all"
    if not view.serving:
        yield view.waiting


def worth_a_look(sites: Sequence[SiteView]) -> Sequence[SiteView]:
    """All sites if they fit on some screens; else those that are not well, at most so many."""
    if len(sites) <= MOST_SITES:
        return sites
    return [one for one in sites if not is_well(one)][:MOST_SITES]


def is_well(site: SiteView) -> bool:
    """The site is enrolled, its last vote counted, and it is connected if that is known."""
    connected = site.now is None or site.now.connected is not None
    return site.state == "enrolled" and connected and site.last in ("", "voted")


def presence_text(seen: "SitePresence | None", *, now: float) -> str:
    """What a site is doing, and since when."""
    if seen is None:
        return "-"
    words = {
        "working": f"working on round {seen.round}",
        "sent": f"sent round {seen.round}",
        "idle": "connected",
        "silent": "silent",
        "left": "left",
        "away": "not connected",
    }
    since = f" since {clock_time(seen.since, now=now)}" if seen.since else ""
    return f"{words[seen.doing]}{since}"
