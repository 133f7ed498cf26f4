"""An application of aiohttp that answers at an address."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

END_SECONDS = 2.0
"""How long requests in progress may take when the server ends."""


@asynccontextmanager
async def listening(app: web.Application, port: int, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """The application answers at the address until the block is left; port 0 = a free one."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=END_SECONDS)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    try:
        address, chosen = runner.addresses[0][:2]
        yield f"http://{address}:{chosen}"
    finally:
        await runner.cleanup()
