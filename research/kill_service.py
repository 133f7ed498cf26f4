"""Kill a gateway and its engine again and again under load, and look for what was lost.

    python -m research.kill_service docs/results/kill-service.json --kills 10

Applications talk to `fedse serve` in front of an engine, over HTTP, in processes of their own. Both
servers are killed with SIGKILL in turn, and started again. Then the record must have every feedback
that was acknowledged, no turn twice, and for every turn the adapter that its answer named.
`--engine URL` uses a vLLM server that is running, and kills only the gateway.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import numpy as np

from fedse.adapters.base import adapter_spec, initial_adapter
from fedse.adapters.peft_folder import export_adapter
from fedse.store.sealing import Unsealed
from fedse.types import Adapter
from fedse_serve.records import open_records
from fedse_serve.registry import Registry
from fedse_serve.stored import feedback_of, sessions, turns_of

SETTINGS = '[service]\nengine = "{engine}"\n[service.metrics.solved]\ntype = "boolean"\n'
CLIENTS, TURNS = 8, 3
UP_SECONDS = 120.0


class Heard(NamedTuple):
    """What applications were told before the connection broke, if it did."""

    turns: dict[str, tuple[str, str]]
    """Inference -> session and adapter, of answers that arrived whole."""
    feedback: dict[str, str]
    """Feedback that was acknowledged -> its session."""


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def place_with_adapter(folder: Path, base: str) -> Path:
    """An exported adapter that changes next to nothing."""
    spec = adapter_spec(base, rank=2, alpha=4.0, targets=["q_proj", "v_proj"])
    noise = np.random.default_rng(0).normal(0, 1e-3, spec.size).astype(np.float32)
    return export_adapter(Adapter(spec, initial_adapter(spec, seed=0).vector + noise), folder)


async def until_up(url: str, alive: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + UP_SECONDS
    async with aiohttp.ClientSession() as http:
        while time.monotonic() < end:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with http.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
                    if answer.status in (200, 503):
                        return
            if alive.poll() is not None:
                raise SystemExit(f"a server ended with {alive.returncode}")
            await asyncio.sleep(0.1)
    raise SystemExit(f"nothing answers at {url}")


async def talk(url: str, name: str, heard: Heard, stop: asyncio.Event) -> None:
    """One application: sessions of several turns, then feedback, until it is stopped."""
    number = 0
    async with aiohttp.ClientSession() as http:
        while not stop.is_set():
            number += 1
            session = f"{name}-{number}"
            with suppress(aiohttp.ClientError, TimeoutError):
                for turn in range(TURNS):
                    await one_turn(http, url, session, heard, stream=bool(turn % 2))
                await one_feedback(http, url, session, heard)
            await asyncio.sleep(0.01)


async def one_turn(
    http: aiohttp.ClientSession, url: str, session: str, heard: Heard, *, stream: bool
) -> None:
    body = {"messages": [{"role": "user", "content": f"{session}?"}], "max_tokens": 4}
    headers = {"x-fedse-session-id": session}
    async with http.post(
        f"{url}/v1/chat/completions", json={**body, "stream": stream}, headers=headers
    ) as answer:
        text = await answer.text()
        if answer.status != 200 or "engine_gone" in text:
            raise aiohttp.ClientError(text[:80])
        about = answer.headers
        heard.turns[about["x-fedse-inference-id"]] = (session, about["x-fedse-adapter"])


async def one_feedback(http: aiohttp.ClientSession, url: str, session: str, heard: Heard) -> None:
    body = {"metric_name": "solved", "value": True, "episode_id": session}
    async with http.post(f"{url}/v1/feedback", json=body) as answer:
        if answer.status == 200:
            heard.feedback[(await answer.json())["feedback_id"]] = session


def started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", *command], stdout=file, stderr=file, start_new_session=True
        )


async def under_load(
    folder: Path, base: str, *, kills: int, seconds: tuple[float, float], engine: str
) -> tuple[Heard, list[str]]:
    """What was heard while servers were killed, and which were."""
    place, port = place_with_adapter(folder / "adapter", base), free_port()
    engine_port = free_port()
    engine_url = engine or f"http://127.0.0.1:{engine_port}"
    (place / "service").mkdir(exist_ok=True)
    (place / "service" / "site.toml").write_text(SETTINGS.format(engine=engine_url))
    commands = {"gateway": ["fedse", "serve", str(place), "--port", str(port)]}
    if not engine:
        commands["engine"] = ["fedse_serve.instant_engine", str(engine_port)]
    addresses = {"gateway": f"http://127.0.0.1:{port}/health", "engine": f"{engine_url}/health"}
    running = {name: started(command, folder / "log") for name, command in commands.items()}
    heard, killed, draw, stop = Heard({}, {}), [], random.Random(0), asyncio.Event()
    try:
        for name, process in running.items():
            await until_up(addresses[name], process)
        url = f"http://127.0.0.1:{port}"
        clients = [asyncio.create_task(talk(url, f"c{i}", heard, stop)) for i in range(CLIENTS)]
        for number in range(kills):
            await asyncio.sleep(draw.uniform(*seconds))
            name = sorted(running)[number % len(running)]
            os.kill(running[name].pid, signal.SIGKILL)
            running[name].wait()
            killed.append(name)
            running[name] = started(commands[name], folder / "log")
            await until_up(addresses[name], running[name])
        await asyncio.sleep(seconds[1])
        stop.set()
        await asyncio.gather(*clients)
    finally:
        for process in running.values():
            process.terminate()
            process.wait()
    return heard, killed


def looked_at(folder: Path, heard: Heard) -> dict[str, Any]:
    """What is on record, against what was heard."""
    service = folder / "adapter" / "service"
    records = open_records(service, seal=Unsealed(), redact=None, held_out=0.2, clock=time.time)
    known = Registry(service, name="adapter", clock=time.time).state.known
    stored: Counter[str] = Counter()
    wrong, half, found = 0, 0, set()
    for session in sessions(records):
        for turn in turns_of(records, session.session):
            stored[turn.inference] += 1
            told = heard.turns.get(turn.inference)
            wrong += turn.adapter not in known
            wrong += told is not None and told != (session.session, turn.adapter)
            half += not turn.guards.error and not turn.sampled_ids
        found |= {one.id for one in feedback_of(records, session.session)}
    return {
        "turns_answered": len(heard.turns),
        "turns_recorded": len(stored),
        "answered_turns_not_recorded": len(heard.turns.keys() - stored.keys()),
        "turns_recorded_twice": sum(count > 1 for count in stored.values()),
        "turns_recorded_half": half,
        "wrong_adapters": wrong,
        "feedback_acknowledged": len(heard.feedback),
        "acknowledged_feedback_lost": len(heard.feedback.keys() - found),
    }


def kill_service(
    folder: Path,
    *,
    kills: int,
    base: str = "tiny",
    seconds: tuple[float, float] = (0.5, 2.0),
    engine: str = "",
) -> dict[str, Any]:
    """The figures of one trial in an empty folder."""
    heard, killed = asyncio.run(
        under_load(folder, base, kills=kills, seconds=seconds, engine=engine)
    )
    return {"killed": dict(Counter(killed)), **looked_at(folder, heard)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--base", default="tiny")
    parser.add_argument("--engine", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = kill_service(Path(folder), kills=args.kills, base=args.base, engine=args.engine)
    args.result.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
