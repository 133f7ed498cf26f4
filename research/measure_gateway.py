"""What the gateway costs: requests per second of one core, memory, and delay before vLLM.

    python -m research.measure_gateway docs/results/gateway.json --sessions 100000
    python -m research.measure_gateway docs/results/gateway.json --engine http://127.0.0.1:8000

Without an engine, `fedse serve` stands before an instant one, in processes of their own. All
sessions have different texts, and secrets are redacted. CPU seconds are those of the gateway's
process. With an engine, the same streamed requests go to it through the gateway and directly, in
turns, and their ratio counts. The base model answers without an adapter, because adapters are slow
in vLLM on a CPU.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import psutil

from fedse.ports import free_ports
from fedse_serve.engine import BASE
from fedse_serve.moves import Move
from fedse_serve.registry import Registry
from research.kill_service import SETTINGS, place_with_adapter, started, until_up

AT_ONCE, ONE_AT_A_TIME = 64, 40
LONG_TIME = aiohttp.ClientTimeout(total=3600)
SHORT, LONG = 3, 12
"""How often the text is repeated: before vLLM, and before an engine that does not read it."""
TEXT = "My order {number} has not arrived, I paid by card and my address is Elm Street {number}. "


class Answered(NamedTuple):
    first: float
    """Seconds to the first word."""
    whole: float


def body(number: int, *, stream: bool, repeated: int) -> dict[str, Any]:
    text = TEXT.format(number=number) * repeated
    messages = [{"role": "user", "content": text}]
    return {"messages": messages, "max_tokens": 16, "temperature": 0.0, "stream": stream}


async def at_once(count: int, work: Callable[[int], Awaitable[Answered]]) -> list[Answered]:
    """So many requests, AT_ONCE at a time."""
    numbers, done = iter(range(count)), []

    async def one() -> None:
        for number in numbers:
            done.append(await work(number))

    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
    return done


async def ask(
    http: aiohttp.ClientSession, url: str, number: int, *, stream: bool, repeated: int
) -> Answered:
    began, first = time.perf_counter(), 0.0
    asked = {**body(number, stream=stream, repeated=repeated), "model": BASE}
    async with http.post(f"{url}/v1/chat/completions", json=asked) as answer:
        if answer.status != 200:
            raise SystemExit(f"{url} answered {answer.status}: {(await answer.text())[:200]}")
        async for line in answer.content:
            if not first and b'"content"' in line and b'"content": ""' not in line:
                first = time.perf_counter() - began
    return Answered(first, time.perf_counter() - began)


def gateway_at(folder: Path, engine: str, port: int, base: str) -> "subprocess.Popen[bytes]":
    place = place_with_adapter(folder / "adapter", base)
    (place / "service").mkdir()
    (place / "service" / "site.toml").write_text(SETTINGS.format(engine=engine))
    registry = Registry(place / "service", name="adapter", clock=time.time)
    registry.move(Move(kind="pinned", adapter=None, reason="to measure"))
    return started(
        [sys.executable, "-m", "fedse", "serve", str(place), "--port", str(port)], folder / "log"
    )


async def alone(folder: Path, sessions: int) -> dict[str, Any]:
    """The gateway before an instant engine."""
    engine_port, port = free_ports(2)
    engine = started(
        [sys.executable, "-m", "fedse_serve.instant_engine", str(engine_port)], folder / "log"
    )
    gateway = gateway_at(folder, f"http://127.0.0.1:{engine_port}", port, "tiny")
    url, found = f"http://127.0.0.1:{port}", []
    try:
        await until_up(f"{url}/health", gateway)
        process = psutil.Process(gateway.pid)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=LONG_TIME
        ) as http:
            for stream in (False, True):
                parts = 5 if not stream else 1
                for part in range(parts):
                    cpu, began = sum(process.cpu_times()[:2]), time.perf_counter()
                    count = max(1, sessions // parts if not stream else sessions // 10)
                    await at_once(
                        count,
                        lambda n, part=part, stream=stream: ask(  # type: ignore[misc]
                            http, url, n + part * sessions, stream=stream, repeated=LONG
                        ),
                    )
                    spent = sum(process.cpu_times()[:2]) - cpu
                    found.append(
                        {
                            "stream": stream,
                            "requests": count,
                            "requests_per_core_second": round(count / spent, 1),
                            "requests_per_second": round(count / (time.perf_counter() - began), 1),
                            "megabytes": round(process.memory_info().rss / 1e6, 1),
                        }
                    )
                    print(found[-1], flush=True)
    finally:
        for server in (gateway, engine):
            server.terminate()
            server.wait()
    return {"alone": found}


async def before_vllm(folder: Path, engine: str, rounds: int, base: str) -> dict[str, Any]:
    """The same requests through the gateway and directly, in turns."""
    (port,) = free_ports(1)
    gateway = gateway_at(folder, engine, port, base)
    url = f"http://127.0.0.1:{port}"
    rates: dict[str, list[float]] = {"gateway": [], "bare": []}
    firsts: dict[str, list[float]] = {"gateway": [], "bare": []}
    try:
        await until_up(f"{url}/health", gateway)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=LONG_TIME
        ) as http:
            for turn in range(rounds + 1):
                for name, where in (("gateway", url), ("bare", engine)):
                    began = time.perf_counter()
                    answered = await at_once(
                        AT_ONCE,
                        lambda n, where=where, turn=turn: ask(  # type: ignore[misc]
                            http, where, n + 1000 * turn, stream=True, repeated=SHORT
                        ),
                    )
                    if turn:  # the first is for warming up
                        rates[name].append(AT_ONCE / (time.perf_counter() - began))
                        firsts[name] += [one.first for one in answered]
            quiet: dict[str, list[float]] = {"gateway": [], "bare": []}
            for number in range(ONE_AT_A_TIME):  # in turns, because the machine's speed drifts
                for name, where in (("gateway", url), ("bare", engine)):
                    text = 9_000 + 2 * number + (name == "bare")
                    one = await ask(http, where, text, stream=True, repeated=SHORT)
                    quiet[name].append(one.first)
    finally:
        gateway.terminate()
        gateway.wait()
    ratio = statistics.mean(rates["gateway"]) / statistics.mean(rates["bare"])
    return {
        "before_vllm": {
            "sessions_at_once": AT_ONCE,
            "rounds": rounds,
            "throughput_ratio": round(ratio, 3),
            "requests_per_second": {k: [round(r, 2) for r in v] for k, v in rates.items()},
            "first_word_median_ms": {k: _ms(v) for k, v in firsts.items()},
            "first_word_median_ms_one_at_a_time": {k: _ms(v) for k, v in quiet.items()},
        }
    }


def _ms(seconds: list[float]) -> float:
    return round(1000 * statistics.median(seconds), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--engine", default="")
    parser.add_argument("--base", default="smollm2-135m")
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = asyncio.run(
            before_vllm(folder, args.engine, args.rounds, args.base)
            if args.engine
            else alone(folder, args.sessions)
        )
    kept = json.loads(args.result.read_text()) if args.result.is_file() else {}
    args.result.write_text(json.dumps({**kept, **found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
