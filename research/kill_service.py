"""Kill a gateway, its engine and who learns from it under load, and look for what was lost.

    python -m research.kill_service docs/results/kill-service.json --kills 30
    FEDSE_MODELS=FOLDER python -m research.kill_service docs/results/kill-service-vllm.json \\
        --kills 30 --base smollm2-135m --vllm PYTHON_WITH_VLLM

Applications talk to `fedse serve` in front of an engine, over HTTP, while `fedse run` learns from
their sessions, in processes of their own. Each of the three is killed with SIGKILL in turn, and
started again. Then the record must have every feedback that was acknowledged, no turn twice, and
for every turn the adapter that its answer named; and every session that was learned from once, if
it was labelled a success. Without `--vllm` the engine is an instant one.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import numpy as np

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.adapters.peft_folder import export_adapter
from fedse.ports import free_ports
from fedse.store.buffer import Buffer
from fedse.store.sealing import Unsealed
from fedse.types import Adapter
from fedse_serve.engine import BASE
from fedse_serve.records import Records, open_records
from fedse_serve.registry import Registry
from fedse_serve.stored import feedback_of, sessions, turns_of

SETTINGS = """
[service]
engine = "{engine}"
idle_minutes = 0.05
[service.metrics.solved]
type = "boolean"
"""
LEARNING = """
[run]
name = "learning"
rounds = 500
[model]
base = "{base}"
rank = 2
alpha = 4
targets = ["q_proj", "v_proj"]
[rollout]
episodes = 8
context = 512
[train]
steps = 1
[eval]
episodes = 0
[splits]
validation = 0.0
[[clients]]
name = "me"
env = "service"
options = {{ folder = "{folder}" }}
"""
VLLM = "--dtype float32 --max-model-len 512 --enforce-eager --enable-lora --max-lora-rank 8"
CLIENTS, TURNS, RETRY_SECONDS = 8, 3, 0.5
UP_SECONDS = 300.0


class Heard(NamedTuple):
    """What applications were told before the connection broke, if it did."""

    turns: dict[str, tuple[str, str]]
    """Inference -> session and adapter, of answers that arrived whole."""
    feedback: dict[str, str]
    """Feedback that was acknowledged -> its session."""


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
            try:
                for turn in range(TURNS):
                    await one_turn(http, url, session, heard, stream=bool(turn % 2))
                await one_feedback(http, url, session, heard)
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)


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


def started(command: list[str], log: Path, **environment: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env={**os.environ, **environment},
        )


class Parts:
    """The gateway, its engine and who learns, each in a process group of its own."""

    def __init__(self, folder: Path, base: str, vllm: str) -> None:
        self._folder, self._base, self._vllm = folder, base, vllm
        self._ports = dict(zip(("gateway", "engine"), free_ports(2), strict=True))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.place = place_with_adapter(folder / "adapter", base)
        (self.place / "service").mkdir(exist_ok=True)
        engine = self.url("engine")
        (self.place / "service" / "site.toml").write_text(SETTINGS.format(engine=engine))
        learning = LEARNING.format(base=base, folder=self.place / "service")
        (folder / "learning.toml").write_text(learning)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._ports[name]}"

    def _command(self, name: str) -> list[str]:
        python, port = [sys.executable, "-m"], str(self._ports.get(name, 0))
        if name == "gateway":
            return [*python, "fedse", "serve", str(self.place), "--port", port]
        if name == "learner":
            out, file = self._folder / "runs", self._folder / "learning.toml"
            run = next(iter(out.glob("*")), None)
            how = ["resume", str(run)] if run else ["run", str(file), "--out", str(out)]
            return [*python, "fedse", *how, "--plain"]
        if not self._vllm:
            return [*python, "fedse_serve.instant_engine", port]
        model = ["--model", str(base_path(self._base)), "--served-model-name", BASE]
        where = ["--host", "127.0.0.1", "--port", port]
        server = [self._vllm, "-m", "vllm.entrypoints.openai.api_server"]
        return [*server, *model, *where, *VLLM.split()]

    async def start(self, name: str) -> None:
        """It runs and, if it has an address, answers there."""
        loading = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
        self._running[name] = started(self._command(name), self._folder / f"{name}.log", **loading)
        if name in self._ports:
            await until_up(f"{self.url(name)}/health", self._running[name])

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        for name in [*self._running]:
            self.kill(name)


async def under_load(
    parts: Parts, *, kills: int, seconds: tuple[float, float]
) -> tuple[Heard, list[str]]:
    """What was heard while processes were killed, and which were."""
    heard, killed, draw, stop = Heard({}, {}), list[str](), random.Random(0), asyncio.Event()
    names = ("engine", "gateway", "learner")
    try:
        for name in names:
            await parts.start(name)
        url = parts.url("gateway")
        clients = [asyncio.create_task(talk(url, f"c{i}", heard, stop)) for i in range(CLIENTS)]
        for number in range(kills):
            await asyncio.sleep(draw.uniform(*seconds))
            killed.append(names[number % len(names)])
            parts.kill(killed[-1])
            await parts.start(killed[-1])
        await asyncio.sleep(seconds[1])
        stop.set()
        await asyncio.gather(*clients)
    finally:
        parts.end()
    return heard, killed


def learned(folder: Path, records: Records) -> dict[str, int]:
    """What the buffer has, against what was harvested."""
    rows = [*records.db.execute("SELECT session, task, label FROM harvest")]
    won = {task for _, task, label in rows if label}
    kept: Counter[str] = Counter()
    for path in (folder / "runs").glob("*/clients/me/buffer.db"):
        with closing(Buffer(path)) as buffer:
            for name in buffer.experiments():
                kept.update(game.task for game in buffer.kept(name))
    return {
        "sessions_harvested": len(rows),
        "sessions_harvested_twice": len(rows) - len({session for session, *_ in rows}),
        "episodes_learned_from": sum(kept.values()),
        "episodes_twice": sum(count > 1 for count in kept.values()),
        "episodes_without_success": len({task.partition("-")[0] for task in kept} - won),
    }


def looked_at(records: Records, heard: Heard) -> dict[str, Any]:
    """What is on record, against what was heard."""
    known = Registry(records.path.parent, name="adapter", clock=time.time).state.known
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
    vllm: str = "",
) -> dict[str, Any]:
    """The figures of one trial in an empty folder."""
    parts = Parts(folder, base, vllm)
    heard, killed = asyncio.run(under_load(parts, kills=kills, seconds=seconds))
    engine = "vLLM" if vllm else "instant"
    service = parts.place / "service"
    records = open_records(service, seal=Unsealed(), redact=None, held_out=0.2, clock=time.time)
    found = {**looked_at(records, heard), **learned(folder, records)}
    return {"engine": engine, "base": base, "killed": dict(Counter(killed)), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--base", default="tiny")
    parser.add_argument("--vllm", default="", help="the Python that has vLLM")
    parser.add_argument("--seconds", type=float, nargs=2, default=(0.5, 4.0), help="between kills")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = kill_service(
            Path(folder),
            kills=args.kills,
            base=args.base,
            seconds=tuple(args.seconds),
            vllm=args.vllm,
        )
    args.result.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
