"""One JSON question to an HTTP server; whatever is not a timely JSON answer is an EnvError."""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from fedse.errors import EnvError

# An environment's server is on this machine or in this network, never behind a proxy.
_OPENER = build_opener(ProxyHandler({}))


def ask(url: str, body: object = None, *, timeout: float) -> Any:
    """The answer to GET, or to POST when there is a body; each wait is at most `timeout` s."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"})
    try:
        with _OPENER.open(request, timeout=timeout) as answer:
            return json.loads(answer.read())
    except HTTPError as error:
        said = error.read(200).decode("utf-8", "replace")
        raise _failed(url, f"HTTP {error.code}: {said}") from error
    except (OSError, ValueError) as error:
        raise _failed(url, f"{type(error).__name__}: {error}") from error


def _failed(url: str, got: str) -> EnvError:
    return EnvError(
        f"environment server: expected a JSON answer from {url}, got {got}",
        hint=f"see whether the server is up and its log is clean: curl -sS {url}",
    )
