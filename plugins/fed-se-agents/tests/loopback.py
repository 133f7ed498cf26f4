"""An endpoint on the loopback with a policy of letters behind it, and what a program asks of it."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from fedse.adapters.base import base_path
from fedse.agent.policy import Dialogue, Policy, Reply, keeps_shapes
from fedse.agent.prompt import Encoder
from fedse.method.rollout import Game
from fedse.types import Task, Trajectory
from fedse_agents.batch_queue import BatchQueue
from fedse_agents.endpoint import OpenEndpoint, listening
from fedse_agents.record import Episodes

GAMES = [Game(Task(env="program", id=f"train-{i}", split="train"), i) for i in range(4)]
END = 0


class Letters:
    """A policy whose tokens are letters: it answers a question with its length and what it saw."""

    name = "letters"

    def __init__(self, *, room: int = 10_000, seconds: float = 0.0) -> None:
        self.room, self.seconds = room, seconds
        self.batches: list[int] = []
        self.threads: set[int] = set()
        self.seen: list[Dialogue] = []

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        self.batches.append(len(dialogues))
        self.threads.add(threading.get_ident())
        self.seen += dialogues
        time.sleep(self.seconds)
        return [self._reply(dialogue) for dialogue in dialogues]

    def _reply(self, dialogue: Dialogue) -> Reply | None:
        said = sum(len((*t.context_ids, *t.action_ids)) for t in dialogue.turns)
        if said + len(dialogue.observation) > self.room:
            return None
        text = f" {len(dialogue.turns)}:{dialogue.observation} "
        return Reply(text, tuple(map(ord, dialogue.observation)), (*map(ord, text), END))


def _letters() -> dict[str, int]:
    """ASCII -> its token in the tiny model, whose file writes two of them in other signs."""
    vocabulary = json.loads((base_path("tiny") / "tokenizer.json").read_text())["model"]["vocab"]
    signs = {" ": "\u0120", "\n": "\u010a"}
    return {chr(i): vocabulary.get(signs.get(chr(i), chr(i)), END) for i in range(128)}


LETTERS = _letters()


class Spelling:
    """A policy that says what it is told to, one token per byte: never as a tokenizer would."""

    name = "spelling"

    def __init__(self, encoder: Encoder, *texts: str) -> None:
        self.encoder, self.texts = encoder, list(texts)
        self.seen: list[Dialogue] = []
        self.sampled: list[tuple[int, ...]] = []

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        return [self._reply(dialogue) for dialogue in dialogues]

    def _reply(self, dialogue: Dialogue) -> Reply:
        ids = (*map(LETTERS.__getitem__, self.texts.pop(0)), self.encoder.end_id)
        self.seen.append(dialogue)
        self.sampled.append(ids)
        return Reply(self.encoder.text(ids), self.encoder.context(dialogue), ids)


class Running:
    """An endpoint with a policy behind it, and the requests a program would make."""

    def __init__(self, at: OpenEndpoint, episodes: Episodes, desk: BatchQueue) -> None:
        self.at, self.episodes, self.desk = at, episodes, desk

    def open(self) -> dict[str, Any]:
        status, told = post(f"{self.at.url}/episodes", {}, key=self.at.key)
        assert status == 201
        return told

    def recorded(self) -> list[Trajectory]:
        return self.episodes.trajectories(policy="letters", round=1)


@contextmanager
def endpoint(
    policy: Policy,
    *,
    max_turns: int = 9,
    batch: int = 1,
    encoder: Encoder | None = None,
    roles: Sequence[str] = (),
) -> Iterator[Running]:
    episodes = Episodes(GAMES, max_turns=max_turns, roles=roles)
    desk = BatchQueue(batch=batch, window=1.0)
    over = threading.Event()

    def answer() -> None:
        while not over.is_set():
            desk.answer_some(policy, seed=0, patience=0.01, expected=lambda: batch)

    with listening(episodes, desk, encoder, shapes=keeps_shapes(policy)) as at:
        answering = threading.Thread(target=answer)
        answering.start()
        try:
            yield Running(at, episodes, desk)
        finally:
            over.set()
            answering.join()


def post(url: str, body: object, *, key: str = "", host: str = "") -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    if host:
        headers["Host"] = host
    # Plain HTTP: reading all authorities would take longer than the question.
    said = httpx.post(url, content=data, headers=headers, timeout=20, verify=False, trust_env=False)
    kind = said.headers.get("content-type", "")
    return said.status_code, said.json() if "json" in kind else said.text


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def bot(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def chat(base_url: str, messages: Sequence[object], **more: object) -> str:
    status, told = post(f"{base_url}/chat/completions", {"messages": messages, **more})
    assert status == 200, told
    content: str = told["choices"][0]["message"]["content"]
    return content
