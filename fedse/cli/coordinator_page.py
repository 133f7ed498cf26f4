"""The coordinator's page, its /status and /health: read-only, on the loopback address."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fedse.cli.connections import sites_now
from fedse.cli.federation_view import View
from fedse.cli.run import parse_address
from fedse.errors import FedSEError, MachineError, boundary
from fedse.events import Observer
from fedse.observers.health import JSON, Watch, WsgiApp, health_app, served
from fedse.ports import why_not_free
from fedse.report.page import watch_page

if TYPE_CHECKING:
    from fedse.federation.folder import Federation

NO_PAGE = "none"
HOST, PORT = "127.0.0.1", 9465
PageOption = Annotated[
    str | None,
    Parameter(
        help=f"Address of the coordinator's page; default: {HOST}:{PORT}, or another port if that "
        f"is taken. {NO_PAGE}: no page."
    ),
]
Report = Callable[[], dict[str, Any]]
HEADERS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)


@contextmanager
def page_served(
    address: str | None,
    federation: "Federation",
    view: View,
    *,
    patience: float,
    tell: Callable[[str], None],
) -> Iterator[list[Observer]]:
    """The page is served and its address printed; yields observers that keep its health current."""
    if address == NO_PAGE:
        yield []
        return
    host, port = _place(address)
    watch = Watch(clock=time.monotonic, patience=patience)
    app = page_app(
        lambda: view().facts(), health_app(watch, partial(sites_now, federation)), host=host
    )
    hint = f"choose another address and port: --page {HOST}:PORT, or --page {NO_PAGE}"
    with ExitStack() as stack:
        with boundary(MachineError, f"the page cannot be served on {host}:{port}", hint=hint):
            taken = stack.enter_context(served(host, port, app))
        tell(f"page of this federation: http://{host}:{taken}/ (read-only)")
        yield [watch]


def _place(address: str | None) -> tuple[str, int]:
    """Where the page is served; 0 = at any free port."""
    if address is not None:
        return parse_address("--page", address, like=f"{HOST}:{PORT}")
    return HOST, 0 if why_not_free(HOST, PORT) else PORT


def page_app(report: Report, health: WsgiApp, *, host: str) -> WsgiApp:
    """Answers GET requests for the page, /status and /health, and nothing else.

    On a loopback address only requests that name this machine are answered. Otherwise another web
    site open in the same browser could claim this address and read the page (DNS rebinding).
    """
    text, rules = watch_page()
    page = [("Content-Type", "text/html; charset=utf-8"), ("Content-Security-Policy", rules)]

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if is_loopback(host) and not names_this_machine(environ.get("HTTP_HOST", "")):
            start("421 Misdirected Request", [*HEADERS])
            return [b"use the address of this page\n"]
        if environ["REQUEST_METHOD"] != "GET":
            start("405 Method Not Allowed", [*HEADERS])
            return [b"this page is read-only\n"]
        match environ["PATH_INFO"]:
            case "/":
                start("200 OK", [*HEADERS, *page])
                return [text.encode()]
            case "/status":
                return _status(report, start)
            case "/health":
                return health(environ, start)
        start("404 Not Found", [*HEADERS])
        return [b"not found; try /, /status or /health\n"]

    return app


def _status(report: Report, start: Callable[..., Any]) -> list[bytes]:
    try:
        found = json.dumps(report()).encode()
    except FedSEError as error:
        # The text may name a path; `fedse federation status` prints it in full.
        start("503 Service Unavailable", [*HEADERS, JSON])
        return [json.dumps({"error": type(error).__name__}).encode()]
    start("200 OK", [*HEADERS, JSON])
    return [found]


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def names_this_machine(host: str) -> bool:
    """Whether the Host of a request, with or without its port, is the loopback address."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return is_loopback(name)
