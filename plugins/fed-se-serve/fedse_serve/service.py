"""A service in operation: the gateway, and what goes on beside it.

Beside it, the newest adapter of the place is offered, a candidate is put through the gate, its
trial is looked at, ended sessions are judged, and old sessions are removed. All of that is in
threads, so no turn waits for it, and a failure there is told and tried again.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fedse.agent.prompt import Encoder
from fedse.engine.client import KEY_VARIABLE
from fedse.errors import FedSEError, StoreError
from fedse.redact.episode import redactor_for
from fedse.store.buffer_key import seal_for
from fedse.store.lock import locked
from fedse.types import Clock
from fedse_serve.engine import BASE, Engine
from fedse_serve.forgetting import forget_before
from fedse_serve.gateway import Gateway, make_app
from fedse_serve.keys import read_keys
from fedse_serve.listening import listening
from fedse_serve.moves import Move, State
from fedse_serve.place import Place
from fedse_serve.recorder import RecordingThread
from fedse_serve.records import Records, open_records
from fedse_serve.registry import Registry, digest_in
from fedse_serve.roles import Blocks
from fedse_serve.serving import Offered, Serving
from fedse_serve.trial import trial_so_far
from fedse_serve.verifying import verify_ended

LOOK_SECONDS = 2.0
"""Between two looks at who serves, and at the trial."""
HOUSEKEEPING_SECONDS = 60.0
SHARE = 0.05
"""Of the time that such work may take, at most."""
DAY_SECONDS = 86_400.0
TURN_SECONDS = 600.0
"""How long the engine may take for one turn."""
GATE = {"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 8}
"""What a candidate has to answer before it serves anyone."""

Tell = Callable[[str], None]


def told(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def records_of(
    place: Place, *, encoder: Encoder | None, clock: Clock, environ: Mapping[str, str]
) -> Records:
    """What the service in a place has on record, under the settings of the place's owner."""
    return open_records(
        place.folder,
        seal=seal_for(place.home, place.storage, environ),
        redact=redactor_for(place.redact, place.home, encoder),
        held_out=place.settings.held_out,
        clock=clock,
    )


def registry_of(place: Place, *, clock: Clock) -> Registry:
    """The adapters of the service in a place."""
    return Registry(place.folder, name=place.home.name, clock=clock)


class Service:
    """What a gateway and the work beside it share."""

    def __init__(
        self,
        place: Place,
        *,
        encoder: Encoder | None,
        clock: Clock,
        environ: Mapping[str, str] = os.environ,
        tell: Tell = told,
    ) -> None:
        self.place, self._clock, self._tell = place, clock, tell
        self.records = records_of(place, encoder=encoder, clock=clock, environ=environ)
        self.registry = registry_of(place, clock=clock)
        self.blocks = Blocks(self._folder_of)
        self.engine = Engine(
            place.settings.engine,
            self.blocks.folder,
            key=environ.get(KEY_VARIABLE, ""),
            seconds=TURN_SECONDS,
        )
        self.recorder = RecordingThread(
            self.records,
            place.settings.metrics,
            template=place.template,
            encoder=encoder,
            clock=clock,
            tell=tell,
        )
        self._bare = BASE
        self._offered = Offered(BASE)

    def gateway(self) -> Gateway:
        """The routes of this service."""
        salt = self.records.marks.person("arms")
        serve = Serving(
            self.records.pin_of,
            lambda: self._offered,
            salt=salt,
            sticky=self.place.settings.sticky,
        )
        return Gateway(
            self.engine,
            self.recorder,
            serve,
            read_keys(self.place.folder),
            clock=self._clock,
            roles=self.place.roles,
            name_of=self.blocks.name,
        )

    async def begin(self) -> None:
        """Who serves is known; the first adapter of a new service serves at once."""
        self._bare = await self.engine.bare_model() or BASE
        newest = self.place.newest()
        if newest and not self.registry.history:
            digest = self.registry.offer_folder(newest, reason="the first of this service")
            self.registry.serve_first(digest)
        self.look()

    def look(self) -> State:
        """Who serves is as the registry says now."""
        state = self.registry.state
        current, one = state.current or self._bare, state.candidate
        if one and one.share and not state.pinned:
            self._offered = Offered(current, one.adapter, one.share)
        else:
            self._offered = Offered(current)
        return state

    async def look_at_trial(self) -> None:
        """A candidate has gone as far as its sessions allow."""
        state = await asyncio.to_thread(self.look)
        one = state.candidate
        if one is None or state.pinned:
            return
        if not one.passed:
            await self._through_gate(one.adapter)
        elif not one.share:
            first = self.place.settings.canary.shares[0]
            await self._move(Move(kind="share", adapter=one.adapter, share=first))
        else:
            settings = self.place.settings
            decision = await asyncio.to_thread(
                trial_so_far, self.records, one, settings, now=self._clock()
            )
            after = await asyncio.to_thread(self.registry.follow, one.adapter, decision)
            if after != state:
                self._tell(f"adapter {one.adapter[:12]}: {decision.verdict}, {decision.reason}")
        await asyncio.to_thread(self.look)

    async def _move(self, move: Move) -> None:
        await asyncio.to_thread(self.registry.move, move)

    async def _through_gate(self, adapter: str) -> None:
        """The candidate has passed, or is withdrawn because it does not answer."""
        tried = [await self.engine.tries(name, GATE) for name in self.blocks.names(adapter)]
        answered = None if None in tried else all(tried)
        if answered:
            why = "it is loaded and answers"
            await self._move(Move(kind="passed", adapter=adapter, reason=why))
        elif answered is False:
            why = "the engine cannot load it, or it says nothing"
            await self._move(Move(kind="withdrawn", adapter=adapter, reason=why))

    def keep_house(self) -> None:
        """The newest adapter is offered, ended sessions are judged, old ones are gone."""
        settings, now = self.place.settings, self._clock()
        newest = self.place.newest()
        if newest is not None and digest_in(newest) not in self.registry.state.known:
            self.registry.offer_folder(newest, reason="the newest of this place")
        verify_ended(self.records, settings, now=now, folder=self.place.home)
        forget_before(self.records, now - settings.retention_days * DAY_SECONDS)

    def _folder_of(self, adapter: str) -> Path | None:
        try:
            return self.registry.folder_of(adapter)
        except StoreError:
            return None


@asynccontextmanager
async def running(service: Service, host: str, port: int) -> AsyncIterator[str]:
    """The service answers at the address until the block is left; its folder has no other one."""
    busy = f"an agent is in service from {service.place.folder}"
    stop = "stop that one (Ctrl-C, or its service), then give the command again"
    with locked(service.place.folder, busy=busy, hint=stop):
        async with _answering(service, host, port) as address:
            yield address


@asynccontextmanager
async def _answering(service: Service, host: str, port: int) -> AsyncIterator[str]:
    async with service.engine.open():
        await service.begin()
        beside = [
            asyncio.create_task(_again(service.look_at_trial, LOOK_SECONDS)),
            asyncio.create_task(
                _again(lambda: asyncio.to_thread(service.keep_house), HOUSEKEEPING_SECONDS)
            ),
        ]
        try:
            async with listening(make_app(service.gateway()), port, host) as address:
                yield address
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            service.recorder.close()


async def _again(work: Callable[[], Awaitable[None]], seconds: float) -> None:
    """The work is done again and again, never for more than a small share of the time; each new
    failure is told once."""
    last = ""
    while True:
        began = time.monotonic()
        try:
            await work()
            last = ""
        except FedSEError as error:
            if str(error) != last:
                told(f"{error}")
            last = str(error)
        await asyncio.sleep(max(seconds, (time.monotonic() - began) / SHARE))
