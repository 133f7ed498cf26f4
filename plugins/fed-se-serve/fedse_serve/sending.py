"""Where exported records go: a file of JSON lines, or a collector of OpenTelemetry.

A collector takes them as OTLP over HTTP in JSON. What is sent again has the same ids.
"""

import asyncio
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)
from yarl import URL

from fedse.errors import ConfigError, RunError, StoreError, boundary
from fedse.store.files import OWNER_ONLY, new_file, sync_folder
from fedse_serve.bring_out import request_of

MOST_SPANS, MOST_BYTES = 256, 1 << 20
"""Of one request; a span that is longer goes alone."""
ANSWER_SECONDS = 30.0
ATTEMPTS, LONGEST_PAUSE = 5, 8.0
PASSING = (429, 502, 503, 504)
"""What a collector says that can take the same request later."""
QUOTED = 200
"""Characters of an answer that an error quotes."""
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
"""Of the environment: `name=value,name=value`, as OpenTelemetry's own exporters read it."""


class Passing(Exception):
    """A request that may be taken if it is sent again."""


class Sent(NamedTuple):
    """What became of the spans that a collector was sent."""

    spans: int
    refused: int
    why: str
    """What the collector says of the last that it refused."""


def batches(spans: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
    """All spans, each with its application, as requests of bounded size, in their order."""
    held: list[tuple[str, Mapping[str, Any]]] = []
    size = 0
    for application, span in spans:
        own = len(_line(span))
        if held and (len(held) == MOST_SPANS or size + own > MOST_BYTES):
            yield request_of(held)
            held, size = [], 0
        held.append((application, span))
        size += own
    if held:
        yield request_of(held)


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> int:
    """`path`, which only its owner can read, has one line of JSON for each; how many."""
    count = 0
    with boundary(StoreError, f"write {path}"):
        with new_file(path, mode=OWNER_ONLY) as draft, draft.open("wb") as file:
            for count, line in enumerate(lines, 1):  # noqa: B007
                file.write(_line(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    return count


def post(url: str, requests: Iterable[Mapping[str, Any]], environ: Mapping[str, str]) -> Sent:
    """The collector at `url` was sent all requests, one after the other."""
    return asyncio.run(_post_all(URL(url), requests, headers_in(environ)))


def headers_in(environ: Mapping[str, str]) -> dict[str, str]:
    """The headers that the environment has for collectors, such as keys."""
    made: dict[str, str] = {}
    for one in filter(str.strip, environ.get(HEADERS, "").split(",")):
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            raise ConfigError(
                f"{HEADERS} must be name=value,name=value, and one part has no name or no =",
                hint=f"export {HEADERS}='Authorization=Basic%20...'",
            )
        made[name.strip()] = URL.build(fragment=value.strip(), encoded=True).fragment
    return made


async def _post_all(
    url: URL, requests: Iterable[Mapping[str, Any]], headers: Mapping[str, str]
) -> Sent:
    sent, refused, why = 0, 0, ""
    own = {**headers, "Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(headers=own, timeout=timeout) as http:
        for request in requests:
            partial = await _post(http, url, _line(request), sent)
            sent += _count(request)
            refused += int(partial.get("rejectedSpans") or 0)
            why = str(partial.get("errorMessage") or why)
    return Sent(sent, refused, why)


async def _post(http: aiohttp.ClientSession, url: URL, body: bytes, sent: int) -> dict[str, Any]:
    """What the collector says about those of the spans that it did not take."""
    try:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type((Passing, aiohttp.ClientConnectionError, TimeoutError)),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(max=LONGEST_PAUSE),
            reraise=True,
        ):
            with attempt:
                return await _posted(http, url, body)
    except (Passing, aiohttp.ClientError, TimeoutError) as error:
        shown, reason = url.with_user(None), str(error) or type(error).__name__
        raise RunError(
            f"{shown} did not take the spans: {reason}; {sent} were sent before",
            hint="see if the collector takes OTLP over HTTP there, mostly at"
            f" {shown.with_path('/v1/traces')}, then give the command again",
        ) from None
    raise AssertionError("the last attempt returns or raises")


async def _posted(http: aiohttp.ClientSession, url: URL, body: bytes) -> dict[str, Any]:
    async with http.post(url, data=body, allow_redirects=False) as answer:
        said = (await answer.text(errors="replace")).strip()
        if answer.status in PASSING:
            raise Passing(f"status {answer.status}")
        if not 200 <= answer.status < 300:
            raise aiohttp.ClientPayloadError(f"status {answer.status}, {said[:QUOTED]!r}")
    try:
        return dict(json.loads(said)["partialSuccess"] or {})
    except (ValueError, TypeError, KeyError):
        return {}  # all was taken


def _count(request: Mapping[str, Any]) -> int:
    scopes = [scope for one in request["resourceSpans"] for scope in one["scopeSpans"]]
    return sum(len(scope["spans"]) for scope in scopes)


def _line(value: Mapping[str, Any]) -> bytes:
    """As JSON in UTF-8; half a surrogate pair, which that cannot hold, is a question mark."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
