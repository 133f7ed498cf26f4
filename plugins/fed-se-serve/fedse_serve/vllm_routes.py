"""The routes of a vLLM server, as far as a gateway uses them, for engines of our own."""

from collections.abc import Awaitable, Callable, Iterable
from hmac import compare_digest
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
MOST_BYTES = 8 << 20
"""Of one request: a conversation of a million tokens."""


def vllm_app(
    *, chat: Answer, load: Answer, adapters: Callable[[], Iterable[str]], base: str, key: str = ""
) -> web.Application:
    """Chats, adapters loaded by name, the list of them, and whether it is well.

    With a key every route asks for it, where vLLM's own leaves some open.
    """

    async def models(request: web.Request) -> web.Response:
        names: list[dict[str, Any]] = [
            {"id": name, "parent": None if name == base else base} for name in adapters()
        ]
        return web.json_response({"object": "list", "data": names})

    async def health(request: web.Request) -> web.Response:
        return web.Response()

    @web.middleware
    async def keyed(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode()
        if key and not compare_digest(given, f"Bearer {key}".encode()):
            error = {"error": {"message": "expected the key of this engine"}}
            return web.json_response(error, status=401)
        return await handler(request)

    app = web.Application(client_max_size=MOST_BYTES, middlewares=[keyed])
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/load_lora_adapter", load)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/health", health)
    return app
