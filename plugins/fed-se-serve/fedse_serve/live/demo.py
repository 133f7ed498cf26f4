"""`fedse demo live`: three shops in service, four nights of learning, one harmful adapter.

The shops begin with conversations of their own staff. By day customers talk to each shop's gateway,
and thumbs come late. At night the shops learn from the sessions with a thumb up, and only adapters
travel. What they have learned together is offered to each service and has to prove itself there.
On the day after, somebody offers a harmful adapter to one shop. Days are simulated: the clock runs
ahead.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from fedse.api import running as runs
from fedse.seeds import seed_of
from fedse.store.run_folder import open_run
from fedse.types import Adapter
from fedse_serve.live.customers import (
    LATEST,
    Thumbs,
    Visit,
    customers_of,
    serve_customers,
    thumbs_of,
)
from fedse_serve.live.shops import DAY, SHOPS, Clock, Shop, engine_running, open_shop
from fedse_serve.moves import Move
from fedse_serve.page import service_page
from fedse_serve.status import Status, status_of

STAFF_ROUNDS, NIGHTS, CUSTOMERS = 1, 4, 24
HARM, HARMED = 3.0, 64
"""How much longer than a learned adapter the harmful one is, and how many customers come to the
shop that it is offered to: enough to tell by."""
THUMBS = Thumbs()
WAVES = 2
"""How often a day the trial is looked at."""
EXPERIMENT = """
[run]
name = "live"
rounds = {rounds}
seed = {seed}
[model]
base = "{base}"
[rollout]
episodes = 64
context = 512
new_tokens = 28
[train]
lr = 3e-4
optimizer = "kept"
schedule = "constant"
batch = 1
steps = 16
[trainer]
precision = "float32"
max_tokens = 1536
[eval]
episodes = 0
[splits]
validation = 0.0
"""
CLIENT = """
[[clients]]
name = "{shop}"
env = "service"
options = {{ folder = "{home}/service", imports = "{home}/logs.jsonl" }}
"""


class DayDone(NamedTuple):
    """What really happened on a day."""

    day: int
    shop: str
    visits: tuple[Visit, ...]


class LiveDemo(NamedTuple):
    days: list[DayDone]
    statuses: dict[str, Status]
    pages: dict[str, Path]


class Live:
    """The days of all shops, and what the nights bring them."""

    def __init__(
        self,
        shops: list[Shop],
        clock: Clock,
        how: Thumbs,
        *,
        seed: int,
        tell: Callable[[str], None],
    ) -> None:
        self.shops, self._clock, self._how, self._seed = shops, clock, how, seed
        self._tell, self.days = tell, list[DayDone]()
        self._clients: dict[str, Any] = {}

    async def day(self, number: int) -> None:
        """Customers came to all shops, and what was said of earlier days has arrived."""
        await self._day(number, self.shops, CUSTOMERS)

    async def _day(self, number: int, shops: Sequence[Shop], customers: int) -> None:
        for shop in shops:
            for _ in range(2):  # a new candidate gets through the gate, and then its share
                await shop.service.look_at_trial()
        for wave in range(WAVES):
            coming = [self._wave(shop, number, wave, customers // WAVES) for shop in shops]
            await asyncio.gather(*coming)
            await self._pass_time(DAY / WAVES)
        solved = [visit.solved for done in self.days if done.day == number for visit in done.visits]
        self._tell(
            f"day {number}: {sum(solved)} of {len(solved)} customers served as the rules ask"
        )

    async def _wave(self, shop: Shop, number: int, wave: int, customers: int) -> None:
        """A part of the day's customers came to one shop."""
        random = Random(seed_of(self._seed, "customers", shop.name, number, wave))
        tasks = customers_of(shop.name, customers, random=random)
        client, when = self._client(shop), f"{number}-{wave}"
        visits = await serve_customers(client, shop.name, tasks, when=when)
        self.days.append(DayDone(number, shop.name, tuple(visits)))
        shop.waiting.extend(thumbs_of(visits, self._how, now=self._clock.now, random=random))

    async def _pass_time(self, seconds: float) -> None:
        self._clock.now += seconds
        for shop in self.shops:
            await self._hear(shop)
            await shop.service.look_at_trial()

    async def _hear(self, shop: Shop) -> None:
        """The thumbs whose time has come are on record."""
        due = [thumb for thumb in shop.waiting if thumb.at <= self._clock.now]
        for thumb in due:
            shop.waiting.remove(thumb)
            body = {"metric_name": "thumb", "value": thumb.up, "episode_id": thumb.session}
            await shop.service.recorder.feedback(json.dumps(body).encode(), {})

    def offer(self, adapter: Adapter, reason: str) -> None:
        """All services have got the adapter; their first one serves at once."""
        for shop in self.shops:
            first = not shop.service.registry.history
            digest = shop.service.registry.offer(adapter, reason=reason)
            if first:
                shop.service.registry.serve_first(digest)
            shop.service.look()

    async def mistake(self, adapter: Adapter) -> None:
        """One shop was offered a harmful adapter and had customers; all thumbs have come."""
        shop = self.shops[0]
        registry = shop.service.registry
        while one := registry.state.candidate:
            registry.move(Move(kind="withdrawn", adapter=one.adapter, reason="replaced by hand"))
        registry.offer(adapter, reason="a mistake")
        await self._day(NIGHTS + 2, [shop], HARMED)
        await self._pass_time(LATEST)

    def _client(self, shop: Shop) -> Any:
        from openai import AsyncOpenAI

        if shop.name not in self._clients:
            made = AsyncOpenAI(base_url=f"{shop.url}/v1", api_key="none", timeout=600.0)
            self._clients[shop.name] = made
        return self._clients[shop.name]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


def harmful(adapter: Adapter, seed: int) -> Adapter:
    """An adapter of the same form that has unlearned what it knew."""
    noise = np.random.default_rng(seed).normal(0.0, 1.0, adapter.vector.shape)
    length = HARM * np.linalg.norm(adapter.vector) / np.linalg.norm(noise)
    return Adapter(adapter.spec, (noise * length).astype(np.float32))


async def live_demo(
    out: Path, *, base: str, seed: int, tell: Callable[[str], None], how: Thumbs = THUMBS
) -> LiveDemo:
    """All days and nights are over; each shop has its page in `out`."""
    clock = Clock(NIGHTS + 2)
    with engine_running(base) as engine:
        async with AsyncExitStack() as stack:
            shops = [await open_shop(stack, out, name, engine, base, clock, seed) for name in SHOPS]
            live = Live(shops, clock, how, seed=seed, tell=tell)
            stack.push_async_callback(live.close)
            await _learn(live, out, base, seed)
            await live.day(NIGHTS + 1)
            learned = _adapter(out / "runs", STAFF_ROUNDS + NIGHTS)
            await live.mistake(harmful(learned, seed))
            return _ended(live, out, clock)


async def _learn(live: Live, out: Path, base: str, seed: int) -> None:
    """The staff's rounds, and then for every night a round, before it a day of customers."""
    loop, folder = asyncio.get_running_loop(), out / "runs"
    text = EXPERIMENT.format(rounds=STAFF_ROUNDS + NIGHTS, seed=seed, base=base)
    text += "".join(CLIENT.format(shop=shop.name, home=out / shop.name) for shop in live.shops)

    def see(event: str, facts: dict[str, Any]) -> None:
        number = int(facts.get("round", 0))
        night = number - STAFF_ROUNDS
        # The first rounds learn from what the staff said; each later one from a day in service.
        if event == "round.started" and night > 0:
            asyncio.run_coroutine_threadsafe(live.day(night), loop).result()
        if event == "round.committed" and night >= 0:
            reason = f"learned in night {night}" if night else "from the staff"
            live.offer(_adapter(folder, number), reason)

    file = out / "experiment.toml"
    file.write_text(text)
    await asyncio.to_thread(runs.run, file, on_event=see, out=folder)


def _adapter(folder: Path, number: int) -> Adapter:
    """What the only run in the folder had learned after a round."""
    (run,) = folder.iterdir()
    with open_run(run) as opened:
        return opened.adapter(number)


def _ended(live: Live, out: Path, clock: Clock) -> LiveDemo:
    statuses, pages = {}, {}
    for shop in live.shops:
        service = shop.service
        status = status_of(service.records, service.registry, service.place.settings, now=clock.now)
        pages[shop.name] = out / f"{shop.name}.html"
        pages[shop.name].write_text(service_page(status, name=shop.name, now=clock.now))
        statuses[shop.name] = status
    return LiveDemo(live.days, statuses, pages)
