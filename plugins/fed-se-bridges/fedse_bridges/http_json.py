"""One JSON request to an HTTP server; anything but a timely JSON answer is an EnvError.

No redirect is followed: what the agent wrote goes to the server that was named and nowhere else.
"""

import json
import ssl
from functools import cache
from typing import Any

import httpx

from fedse import EnvError

# Bytes of one answer: room for web pages, and no more than this machine can hold.
MAX_ANSWER = 16 * 2**20
# A compressed answer could be a thousand times as large as what arrives.
HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}


def ask(url: str, body: object = None, *, timeout: float) -> Any:
    """The answer to GET, or to POST when there is a body; each wait is at most `timeout` s."""
    method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
    try:
        with httpx.stream(
            method,
            url,
            content=data,
            headers=HEADERS,
            timeout=timeout,
            verify=_authorities(),
            trust_env=False,  # the server is on this machine or in this network, behind no proxy
        ) as answer:
            if answer.has_redirect_location:
                raise _failed(url, f"a redirect to {answer.headers['Location']:.200}")
            said = _read(answer)
        if answer.is_error:
            words = said[:200].decode(errors="replace")
            raise _failed(url, f"HTTP {answer.status_code}: {words}")
        return json.loads(said)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _failed(url, f"{type(error).__name__}: {error}") from error


def _read(answer: httpx.Response) -> bytes:
    said = bytearray()
    for piece in answer.iter_raw():
        said += piece
        if len(said) > MAX_ANSWER:
            raise ValueError(f"more than {MAX_ANSWER} bytes")
    return bytes(said)


@cache
def _authorities() -> ssl.SSLContext:
    """The certificate authorities this machine trusts; reading them takes longer than a request."""
    return ssl.create_default_context()


def _failed(url: str, got: str) -> EnvError:
    return EnvError(
        f"environment server: expected a JSON answer from {url}, got {got}",
        hint=f"see whether the server is up and its log is clean: curl -sS {url}",
    )
