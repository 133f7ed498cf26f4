"""One JSON request to an HTTP server; anything but a timely JSON answer is an EnvError."""

import json
import ssl
from functools import cache
from typing import Any

import httpx

from fedse import EnvError


def ask(url: str, body: object = None, *, timeout: float) -> Any:
    """The answer to GET, or to POST when there is a body; each wait is at most `timeout` s."""
    method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
    try:
        answer = httpx.request(
            method,
            url,
            content=data,
            headers={"Content-Type": "application/json"},
            timeout=timeout,
            verify=_authorities(),
            follow_redirects=True,
            trust_env=False,  # the server is on this machine or in this network, behind no proxy
        )
        if answer.is_error:
            raise _failed(url, f"HTTP {answer.status_code}: {answer.text[:200]}")
        return answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _failed(url, f"{type(error).__name__}: {error}") from error


@cache
def _authorities() -> ssl.SSLContext:
    """The certificate authorities this machine trusts; reading them takes longer than a request."""
    return ssl.create_default_context()


def _failed(url: str, got: str) -> EnvError:
    return EnvError(
        f"environment server: expected a JSON answer from {url}, got {got}",
        hint=f"see whether the server is up and its log is clean: curl -sS {url}",
    )
