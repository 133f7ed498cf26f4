"""The Flower side of a site: passes one message to the site's worker and one reply back.

Flower starts a new process of this for every message, and the server can replace this code, so it
owns nothing: no model, no buffer, no key. It reaches the worker by the socket the site itself
named. Flower sends the text of an exception to the server, so only one fixed text can leave.
"""

import secrets
from functools import partial
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedse.flower.messages.wire import LEAST_SALT, read_request, reply_content
from fedse.site.socket_client import ask_site, ask_until_served

FAILED = "the site could not pass the message to its worker"
# Seconds in which a worker that died is started again and has loaded its model.
PATIENCE = 60.0
# A worker that dies this often over one request does not die by accident.
TRIES = 5
# Bytes from this site's own worker; what of it may leave is bounded at the server.
LARGEST_REPLY = 1 << 31

app = ClientApp()


@app.train()  # type: ignore[untyped-decorator]
def train(message: Message, context: Context) -> Message:
    """The worker's reply, or one fixed text; Flower adds no detail of either to its own."""
    try:
        content = forward(message, context)
    except Exception:
        raise RuntimeError(FAILED) from None
    return Message(content, reply_to=message)


def forward(message: Message, context: Context) -> RecordDict:
    """What the site's worker answers to this message."""
    request, body = read_request(message.content)
    socket, client = _worker(context)
    ask = partial(
        ask_site,
        socket,
        request,
        body,
        client=client,
        max_reply_bytes=LARGEST_REPLY,
        timeout=message.metadata.ttl,
    )
    salt = LEAST_SALT + secrets.randbelow(LEAST_SALT)
    return reply_content(ask_until_served(ask, patience=PATIENCE, tries=TRIES), salt=salt)


def _worker(context: Context) -> tuple[Path, int | None]:
    """The socket to ask; a real site's own setting overrides anything the server sends."""
    if "site" in context.node_config:
        return Path(str(context.node_config["site"])), None
    place = int(context.node_config["partition-id"])
    return Path(str(context.run_config["sites"])) / f"{place}.sock", place
