"""The vLLM server behind the gateway: asked for turns, and given adapters under their digests.

An adapter's name is its digest and is never reused, so the name in an answer says which weights
sampled it. A server that was restarted has lost its adapters; it gets one again when it is needed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from fedse_serve.asked import Refused, Route

RETRY_SECONDS = 5
"""After which an application may ask again when the engine is gone."""
CONNECT_SECONDS = 5.0
LINE_BYTES = 8 << 20
"""The longest line of a streamed answer: the token ids of a prompt of a million tokens."""
BASE = "base"
"""The name of the model without an adapter, where a server was started by fedse."""


class Engine:
    """One vLLM server."""

    def __init__(
        self, url: str, folder_of: Callable[[str], Path | None], *, key: str = "", seconds: float
    ) -> None:
        self.url, self._folder_of, self._key = url.rstrip("/"), folder_of, key
        self._seconds = seconds
        """How long one answer may take."""
        self._http: aiohttp.ClientSession | None = None
        self._loading = asyncio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Engine"]:
        """Requests can be made until the block is left."""
        timeout = aiohttp.ClientTimeout(total=self._seconds, connect=CONNECT_SECONDS)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, headers=headers, read_bufsize=LINE_BYTES
        ) as self._http:
            yield self

    async def answers(self) -> bool:
        """Whether the server is ready; asked once."""
        try:
            async with self._session.get(f"{self.url}/health") as answer:
                return answer.ok
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def bare_model(self) -> str:
        """The server's name for the model without an adapter; empty = it does not answer."""
        try:
            async with self._session.get(f"{self.url}/v1/models") as answer:
                listed = (await answer.json())["data"]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError):
            return ""
        return next((str(model["id"]) for model in listed if not model.get("parent")), "")

    async def tries(self, adapter: str, body: Mapping[str, Any]) -> bool | None:
        """Whether the adapter says something to a chat request; None = the server is gone."""
        try:
            async with self.ask("chat/completions", adapter, body) as answer:
                usage = (await answer.json()).get("usage") or {}
                return bool(usage.get("completion_tokens"))
        except Refused as refusal:
            return None if refusal.status == 503 else False

    @asynccontextmanager
    async def ask(
        self, route: Route, adapter: str, body: Mapping[str, Any]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The server's answer to a request, sampled by `adapter`.

        It is loaded first if the server does not have it. A server that is gone, or that fails, is
        a 503; what the server refuses is refused in its words.
        """
        named = {**body, "model": adapter}
        answer = await self._post(route, named)
        if answer.status == 404 and await self._load(adapter):
            answer.release()
            answer = await self._post(route, named)
        try:
            if not answer.ok:
                raise await _refusal(answer)
            yield answer
        finally:
            if answer.content.at_eof():
                answer.release()
            else:  # the application has left, so the engine need not go on
                answer.close()

    async def _post(self, route: Route, body: Mapping[str, Any]) -> aiohttp.ClientResponse:
        try:
            return await self._session.post(f"{self.url}/v1/{route}", json=body)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise gone(error) from error

    async def _load(self, adapter: str) -> bool:
        """Whether the adapter is known here and now in the server."""
        folder = self._folder_of(adapter)
        if folder is None:
            return False
        body = {"lora_name": adapter, "lora_path": str(folder)}
        async with self._loading:
            try:
                async with self._session.post(
                    f"{self.url}/v1/load_lora_adapter", json=body
                ) as answer:
                    # Refused because somebody loaded it meanwhile is as good.
                    return answer.ok or "already" in (await answer.text())
            except (aiohttp.ClientError, TimeoutError) as error:
                raise gone(error) from error

    @property
    def _session(self) -> aiohttp.ClientSession:
        assert self._http is not None, "the engine is used inside `async with engine.open()`"
        return self._http


def gone(error: BaseException) -> Refused:
    """The answer to an application when the engine cannot be reached or broke off."""
    message = f"the engine does not answer ({type(error).__name__}); nothing was sampled"
    return Refused(503, "engine_gone", message, retry=RETRY_SECONDS)


async def _refusal(answer: aiohttp.ClientResponse) -> Refused:
    text = await answer.text()
    if answer.status >= 500:
        message = f"the engine failed with {answer.status}"
        return Refused(503, "engine_failed", message, retry=RETRY_SECONDS)
    try:
        message = str((await answer.json())["error"]["message"])
    except (ValueError, KeyError, TypeError, aiohttp.ClientError):
        message = text[:300]
    return Refused(answer.status, "engine_refused", message)
