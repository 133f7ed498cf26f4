"""`fedse serve`: put an agent in service, and see and change who serves."""

import asyncio
import json as json_format
import os
import signal
import time
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from fedse.agent.tokens import load_encoder
from fedse.cli.display import Json
from fedse.cli.forget import forgotten_lines
from fedse.errors import ConfigError
from fedse_serve.buffers import forget_lessons, idle
from fedse_serve.engine import BASE
from fedse_serve.exporting import Form, export_records
from fedse_serve.forgetting import forget_person
from fedse_serve.keys import add_key, read_keys
from fedse_serve.moves import Move
from fedse_serve.page import service_page
from fedse_serve.place import SITE, Place, open_place
from fedse_serve.records import Records
from fedse_serve.registry import Registry
from fedse_serve.service import Service, records_of, registry_of, running, told
from fedse_serve.status import Status, status_lines, status_of

app = App(name="serve", help_format="plaintext", help_epilogue="")

Where = Annotated[Path, Parameter(help="A site's folder, a run's, or an exported adapter.")]
Reason = Annotated[str, Parameter(help="Why; it is written to the ledger.")]


@app.default
def start(
    where: Where,
    /,
    *,
    engine: Annotated[
        str | None, Parameter(help="The vLLM server; default: service.engine in site.toml.")
    ] = None,
    host: Annotated[str, Parameter(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="0 = a free one.")] = 8080,
) -> None:
    """Serve an agent to OpenAI clients, record its turns and take feedback, until Ctrl-C.

    Applications reach it at http://HOST:PORT/v1. Beyond this machine it listens only if
    applications have keys (fedse serve key), and TLS is a proxy's task.

    Example: fedse serve site --engine http://127.0.0.1:8000
    """
    place = _place(where)
    if engine:
        settings = place.settings.model_copy(update={"engine": engine})
        place = place._replace(settings=settings)
    _require_keys(place, where, host)
    service = Service(place, encoder=load_encoder(place.base), clock=time.time)
    asyncio.run(_serve(service, host, port))


async def _serve(service: Service, host: str, port: int) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with running(service, host, port) as address:
        told(f"serving at {address}/v1, engine {service.engine.url}")
        await stop.wait()


@app.command
def status(where: Where, /, *, json: Json = False) -> None:
    """Show who serves, how the candidate does, and how many sessions have a label.

    Example: fedse serve status site
    """
    found = _status(_place(where))
    if json:
        print(json_format.dumps(found.model_dump(mode="json")))
        return
    print("\n".join(status_lines(found)))


@app.command
def page(
    where: Where, /, *, out: Annotated[Path, Parameter(help="The HTML file to write.")]
) -> None:
    """Write success by day and adapter, the trial and every move as an HTML page.

    Example: fedse serve page site --out service.html
    """
    place = _place(where)
    out.write_text(service_page(_status(place), name=place.home.name, now=time.time()))
    print(f"the page is in {out}")


@app.command
def pin(
    where: Where,
    adapter: Annotated[str, Parameter(help="Digest or its beginning, base, or none to unpin.")],
    /,
    *,
    reason: Reason = "by hand",
) -> None:
    """An adapter serves everybody, and nothing is tried out until it is unpinned.

    Example: fedse serve pin site 3f2a90c1
    """
    registry = _registry(_place(where))
    state = registry.state
    if adapter == "none":
        registry.move(Move(kind="unpinned", adapter=state.current, reason=reason))
    else:
        chosen = None if adapter == BASE else _known(registry, adapter)
        registry.move(Move(kind="pinned", adapter=chosen, reason=reason))
    print("\n".join(status_lines(_status(_place(where)))))


@app.command
def rollback(where: Where, /, *, reason: Reason = "by hand") -> None:
    """The candidate, or without one the present adapter, serves nobody any more.

    Example: fedse serve rollback site --reason "complaints"
    """
    registry = _registry(_place(where))
    state = registry.state
    one = state.candidate
    bad = one.adapter if one and one.share else state.current
    registry.move(Move(kind="rolled back", adapter=bad, reason=reason))
    print("\n".join(status_lines(_status(_place(where)))))


@app.command
def offer(
    where: Where,
    adapter: Annotated[Path, Parameter(help="A folder that fedse export adapter wrote.")],
    /,
    *,
    reason: Reason = "by hand",
) -> None:
    """An adapter is to replace the present one, if its sessions show that it is no worse.

    Example: fedse serve offer site my-adapter
    """
    digest = _registry(_place(where)).offer_folder(adapter, reason=reason)
    print(f"offered {digest}")


@app.command
def key(
    where: Where, application: Annotated[str, Parameter(help="Its name, for the records.")], /
) -> None:
    """Print a new key for an application; an earlier one of it is no longer valid.

    A service that is running knows it after a restart.

    Example: fedse serve key site shop
    """
    place = _place(where)
    place.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    print(add_key(place.folder, application))


@app.command
def export(
    where: Where,
    /,
    *,
    out: Annotated[str, Parameter(help="The file to write; for otel also a collector's address.")],
    form: Annotated[Form, Parameter(help="Spans in OTLP/JSON, or Langfuse's scores.")],
    texts: Annotated[bool, Parameter(help="With what was said, as it is redacted here.")] = False,
) -> None:
    """Write sessions, turns and feedback for other tools, one JSON object a line.

    otel: a session is a span, its turns are spans below it, and feedback is events. langfuse:
    feedback as bodies of POST /api/public/scores. Without --texts no text of a conversation is in
    it, and no comment, correction or tag. An address is sent OTLP over HTTP; OpenTelemetry's
    variable OTEL_EXPORTER_OTLP_HEADERS may hold a key for it.

    Example: fedse serve export site --out http://127.0.0.1:4318/v1/traces --form otel
    """
    place = _place(where)
    records, settings = _records(place), place.settings
    print(export_records(records, settings, out=out, form=form, texts=texts, environ=os.environ))


@app.command
def forget(
    where: Where,
    person: Annotated[str, Parameter(help="As the application names the person.")],
    /,
) -> None:
    """Nothing that a person said is on record or in the buffer, and nothing is learned of it later.

    Episodes of theirs are erased from the buffer of the site, or of the run, as fedse privacy
    forget does it. Adapters already sent cannot be recalled.

    Example: fedse serve forget site anna@example.org
    """
    place = _place(where)
    records = _records(place)
    with idle(place, f"serve forget {where} PERSON"):
        learned = [*forget_lessons(place, records.marks.person(person), clock=time.time)]
        gone = forget_person(records, person, time.time())
    lessons = sum(len(erased.found.lessons) for _, erased in learned)
    games = sum(len(erased.found.games) for _, erased in learned)
    print(
        f"forgotten: {gone.sessions} sessions, {gone.turns} turns, {gone.feedback} reports,"
        f" and of the buffer {lessons} lessons, {games} games"
    )
    for home, erased in learned:
        if erased.erasures and (home / SITE).is_file():
            print("\n".join(forgotten_lines(erased, home, dry_run=False)))


def _place(where: Path) -> Place:
    return open_place(where, os.environ)


def _registry(place: Place) -> Registry:
    return registry_of(place, clock=time.time)


def _records(place: Place) -> Records:
    return records_of(place, encoder=None, clock=time.time, environ=os.environ)


def _status(place: Place) -> Status:
    return status_of(_records(place), _registry(place), place.settings, now=time.time())


def _known(registry: Registry, beginning: str) -> str:
    """The adapter whose digest begins so."""
    known = [one for one in sorted(registry.state.known) if one.startswith(beginning)]
    if len(known) != 1:
        found = f"{len(known)} adapters" if known else "no adapter"
        raise ConfigError(
            f"{found} of this service begin with {beginning!r}, expected one",
            hint="fedse serve status WHERE",
        )
    return known[0]


def _require_keys(place: Place, where: Path, host: str) -> None:
    if not _is_loopback(host) and not read_keys(place.folder):
        raise ConfigError(
            f"listening at {host} needs applications with keys, and there are none",
            hint=f"fedse serve key {where} NAME",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
