"""An engine for machines without vLLM: fedse's own sampling behind vLLM's routes.

    python -m fedse_serve.own_engine smollm2-135m --port 8000

It is for small models and a few people at a time: requests that come together are one batch, and an
answer is streamed when it is whole. Tool calls and required forms are those of fed-se-agents. If
FEDSE_ENGINE_KEY is in its environment, every request has to have that key.
"""

import argparse
import asyncio
import json
import os
import queue
import secrets
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.adapters.peft_folder import WEIGHTS
from fedse.agent.hf import HFPolicy, engine_for
from fedse.agent.policy import Dialogue, Reply
from fedse.agent.prompt import tokens_so_far
from fedse.agent.tokens import load_encoder
from fedse.engine.client import KEY_VARIABLE
from fedse.method.rollout import Game
from fedse.seeds import seed_of
from fedse.types import Adapter, Task
from fedse_agents.answers import Answered, chunks, completion
from fedse_agents.chat import chat_request, json_object
from fedse_agents.record import RecordedEpisode
from fedse_agents.refused import RequestRefused
from fedse_serve.beginnings import Remembered
from fedse_serve.engine import BASE
from fedse_serve.listening import listening
from fedse_serve.vllm_routes import vllm_app

WINDOW_SECONDS, WINDOW_SHARE = 0.02, 0.1
"""How long the first request of a batch waits for others: so long, or this share of the time that
the last batch took. People who were answered together go on together."""
BATCH, NEW_TOKENS = 64, 256
REMEMBERED_TOKENS = 16_384
"""Per adapter and way of sampling."""
NO_GAME = Game(Task(env="service", id="", split="train"), 0)


class Sampling(NamedTuple):
    """Requests that agree in all of this are sampled together."""

    adapter: str
    temperature: float
    new_tokens: int


class _Asked(NamedTuple):
    how: Sampling
    dialogue: Dialogue
    answer: "asyncio.Future[Reply | None]"


def read_adapter(base: str, folder: Path) -> Adapter:
    """The adapter in a PEFT folder that fits this base model."""
    import numpy as np

    facts = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    spec = adapter_spec(
        base, rank=facts["r"], alpha=facts["lora_alpha"], targets=facts["target_modules"]
    )
    data = (folder / WEIGHTS).read_bytes()
    if not data.startswith(spec.header) or len(data) != spec.nbytes:
        raise RequestRefused(400, "bad_adapter", f"{folder.name} is no adapter for {base}")
    return Adapter(spec, np.frombuffer(data[len(spec.header) :], "<f4").astype(np.float32))


class OwnEngine:
    """One base model, and the adapters that were loaded by name."""

    def __init__(self, base: str, *, context: int, key: str = "") -> None:
        self._base, self._context, self._path = base, context, base_path(base)
        self._key = key
        self._encoder = load_encoder(self._path)
        bare = adapter_spec(base, rank=1, alpha=1.0, targets=["q_proj", "v_proj"])
        self._adapters = {BASE: initial_adapter(bare, seed=0)}
        self._queue: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._calls = 0
        self._policy = lru_cache(maxsize=4)(self._made_policy)

    def app(self) -> web.Application:
        adapters = self._adapters
        return vllm_app(
            chat=self._chat, load=self._load, adapters=lambda: adapters, base=BASE, key=self._key
        )

    @asynccontextmanager
    async def running(self, port: int) -> AsyncIterator[str]:
        """It answers at the address until the block is left."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            async with listening(self.app(), port) as url:
                yield url
        finally:
            self._queue.put(None)
            await asyncio.to_thread(thread.join)

    async def _load(self, request: web.Request) -> web.Response:
        given = await request.json()
        try:
            adapter = read_adapter(self._base, Path(given["lora_path"]))
        except (OSError, KeyError, ValueError, RequestRefused) as error:
            return web.json_response({"error": {"message": f"{error}"}}, status=400)
        self._adapters[given["lora_name"]] = adapter
        return web.Response()

    async def _chat(self, request: web.Request) -> web.Response:
        given = json_object(await request.read())
        for told in ("return_token_ids", "logprobs", "top_logprobs", "metadata"):
            given.pop(told, None)
        temperature = given.pop("temperature", None)
        limits = [given.pop(name, None) for name in ("max_tokens", "max_completion_tokens")]
        most = next(filter(None, limits), NEW_TOKENS)
        how = Sampling(
            given.get("model") or BASE, 1.0 if temperature is None else temperature, most
        )
        if how.adapter not in self._adapters:
            message = f"The model `{how.adapter}` does not exist."
            return web.json_response({"error": {"message": message}}, status=404)
        try:
            return await self._answered(given, how)
        except RequestRefused as refusal:
            return web.json_response(refusal.as_json(), status=refusal.status)

    async def _answered(self, given: dict[str, Any], how: Sampling) -> web.Response:
        asked = chat_request(given)
        # No memory of earlier requests: an episode of its own for each.
        episode = RecordedEpisode(NO_GAME, 1, 0.0)
        question = episode.ask(asked.conversation, self._encoder)
        dialogue = question.dialogue._replace(shape=asked.offer.shape())
        future: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
        self._queue.put(_Asked(how, dialogue, future))
        reply = episode.take(question, await future, asked.offer.read)
        prompt = [*tokens_so_far(dialogue), *reply.context_ids]
        said = asked.offer.read(reply.text)
        answer = Answered(
            reply,
            said,
            call_ids=tuple(f"call_{secrets.token_hex(12)}" for _ in said.calls),
            model=how.adapter,
            id=f"chatcmpl-{secrets.token_hex(12)}",
            created=int(time.time()),
            prompt_tokens=len(prompt),
            cut=reply.action_ids[-1:] != (self._encoder.end_id,),
        )
        if asked.stream:
            events = chunks(answer, usage=asked.usage_in_stream)
            first = json.loads(events[0].removeprefix("data: "))
            told = json.dumps(_with_tokens(first, prompt, reply))
            text = "".join([f"data: {told}\n\n", *events[1:]])
            return web.Response(text=text, content_type="text/event-stream")
        return web.json_response(_with_tokens(completion(answer), prompt, reply))

    def _work(self) -> None:
        took = 0.0
        while (first := self._queue.get()) is not None:
            began = time.monotonic()
            group, end = [first], began + max(WINDOW_SECONDS, WINDOW_SHARE * took)
            while len(group) < BATCH and (left := end - time.monotonic()) > 0:
                with suppress(queue.Empty):
                    more = self._queue.get(timeout=left)
                    if more is None:
                        return
                    group.append(more)
            for how in dict.fromkeys(one.how for one in group):
                self._answer_all(how, [one for one in group if one.how == how])
            took = time.monotonic() - began

    def _answer_all(self, how: Sampling, asked: Sequence[_Asked]) -> None:
        self._calls += 1
        seed = seed_of("own engine", self._calls)
        replies = self._policy(how).act([one.dialogue for one in asked], seed=seed)
        for one, reply in zip(asked, replies, strict=True):
            one.answer.get_loop().call_soon_threadsafe(_give, one.answer, reply)

    def _made_policy(self, how: Sampling) -> HFPolicy:
        adapter = self._adapters[how.adapter]
        return HFPolicy(
            engine_for(self._path, adapter.spec),
            adapter,
            temperature=how.temperature,
            context=self._context,
            new_tokens=how.new_tokens,
            log_chances=True,
            beginnings=Remembered(tokens=REMEMBERED_TOKENS),
        )


def _with_tokens(answer: dict[str, Any], prompt: list[int], reply: Reply) -> dict[str, Any]:
    """The answer with its tokens, as vLLM tells them."""
    choice = answer["choices"][0]
    choice["token_ids"] = list(reply.action_ids)
    content = [{"token": "", "logprob": chance} for chance in reply.log_chances]
    choice["logprobs"] = {"content": content}
    return {**answer, "prompt_token_ids": prompt}


def _give(future: "asyncio.Future[Reply | None]", reply: Reply | None) -> None:
    if not future.done():
        future.set_result(reply)


async def _run(base: str, port: int, context: int) -> None:
    key = os.environ.get(KEY_VARIABLE, "")
    async with OwnEngine(base, context=context, key=key).running(port) as url:
        print(f"{base} answers at {url}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="name or folder of a base model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--context", type=int, default=2048, help="tokens of prompt and answer")
    args = parser.parse_args()
    asyncio.run(_run(args.base, args.port, args.context))


if __name__ == "__main__":
    main()
