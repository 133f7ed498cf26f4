"""Simulated customers: they talk through OpenAI's client, and some of them say later how it went.

What a customer wants, and whether it was done, is known from the environment `desk`. A thumb comes
for some of the sessions, minutes to days later, and may be the wrong one.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from fedse.envs.desk.env import Desk
from fedse.envs.desk.shops import CASES
from fedse.types import Task

TALKING = 64
"""Customers at the same time."""
SOONEST, LATEST = 600.0, 1.5 * 86_400.0
"""Seconds after a session in which its thumb comes."""
NEW_TOKENS = 28


class Thumbs(NamedTuple):
    """How customers say what became of it."""

    share: float = 1 / 3
    """Of the sessions that get a thumb."""
    wrong: float = 0.1
    """Of the thumbs that are the wrong one."""


class Visit(NamedTuple):
    """One session, and what really became of it."""

    session: str
    adapter: str
    arm: str
    solved: bool


class Thumb(NamedTuple):
    """What a customer will say."""

    at: float
    """Seconds since 1970."""
    session: str
    up: bool


async def serve_customers(
    client: Any, shop: str, tasks: Sequence[Task], *, when: str
) -> list[Visit]:
    """All customers have been served, TALKING at a time; in the order of `tasks`."""
    room = asyncio.Semaphore(TALKING)

    async def one(number: int, task: Task) -> Visit:
        async with room:
            return await serve_customer(client, shop, task, f"{shop}-{when}-{number}")

    return await asyncio.gather(*(one(number, task) for number, task in enumerate(tasks)))


async def serve_customer(client: Any, shop: str, task: Task, session: str) -> Visit:
    """The customer has been served, or not."""
    desk = Desk(shop=shop, max_turns=3)
    step = desk.reset(task, seed=0)
    said = [
        {"role": "system", "content": desk.system_prompt},
        {"role": "user", "content": step.observation},
    ]
    adapter = arm = ""
    while not step.done:
        answer = await client.chat.completions.with_raw_response.create(
            model="agent",
            messages=said,
            max_tokens=NEW_TOKENS,
            user=desk.subject(task),
            metadata={"session_id": session},
        )
        adapter, arm = (answer.headers[f"x-fedse-{name}"] for name in ("adapter", "arm"))
        text = answer.parse().choices[0].message.content or ""
        step = desk.step(text)
        said += [
            {"role": "assistant", "content": text},
            {"role": "user", "content": step.observation},
        ]
    return Visit(session, adapter, arm, step.success)


def thumbs_of(visits: Sequence[Visit], how: Thumbs, *, now: float, random: Random) -> list[Thumb]:
    """What the customers will say, and when."""
    said = [visit for visit in visits if random.random() < how.share]
    return [
        Thumb(
            now + random.uniform(SOONEST, LATEST),
            visit.session,
            visit.solved != (random.random() < how.wrong),
        )
        for visit in said
    ]


def customers_of(shop: str, count: int, *, random: Random) -> list[Task]:
    """Who comes on a day: people of the shop, with all kinds of cases."""
    tasks = Desk(shop=shop, cases=CASES, max_turns=3).tasks("train")
    return [random.choice(tasks) for _ in range(count)]


def staff_logs(
    shop: str, cases: Sequence[str], count: int, *, random: Random
) -> list[dict[str, Any]]:
    """Conversations of a shop's own staff, in OpenAI's chat format, about the cases it had."""
    desk, made = Desk(shop=shop, cases=cases, max_turns=3), []
    for task in random.sample([*desk.tasks("train")], count):
        step = desk.reset(task, seed=0)
        said = [{"role": "system", "content": desk.system_prompt}]
        while not step.done:
            said.append({"role": "user", "content": step.observation})
            action = desk.expert()
            said.append({"role": "assistant", "content": action})
            step = desk.step(action)
        made.append({"messages": said})
    return made
