"""Play many games at once, each at its own pace: none waits for another's reply or another's world.

For policies that many threads may ask at the same time, such as a server. Which requests meet in
one batch of the server depends on time, so two runs of a seed agree in distribution, not in bits.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from fedse.agent.policy import Policy
from fedse.envs.base import Acting, Env, EnvFactory, Step, acting_in, role_prompts_of
from fedse.errors import EnvError
from fedse.method.progress import GamesProgress, untold
from fedse.method.rollout import KEEP_NOTHING, Chunk, Game, Keep, play_chunk
from fedse.seeds import seed_of
from fedse.types import Task, Trajectory

T = TypeVar("T")


def rollout_at_own_pace(
    games: Sequence[Game],
    make_env: EnvFactory,
    policy: Policy,
    *,
    round: int,
    batch: int,
    max_turns: int | None = None,
    seed: int,
    progress: GamesProgress = untold,
    keep: Keep = KEEP_NOTHING,
    in_flight: int,
    step_seconds: float,
) -> list[Trajectory]:
    """One trajectory per game, in the order of `games`; each is in `keep` as soon as it ended.

    `in_flight` games are played at a time, whatever `batch` is. A world that takes longer than
    `step_seconds` for one answer breaks its own episode and no other.
    """
    chunks = [
        Chunk(i, (game,), policy.name, round, max_turns, seed_of(seed, "rollout", i))
        for i, game in enumerate(games)
    ]
    played = {chunk.start: stored[0] for chunk in chunks if (stored := keep.stored(chunk))}
    waiting = [chunk for chunk in chunks if chunk.start not in played]
    players = _Players(waiting, partial(OwnThreadEnv, make_env, step_seconds), policy)
    try:
        players.start(min(in_flight, len(waiting)))
        for _ in waiting:
            chunk, trajectories = players.next_played()
            keep.store(chunk, trajectories)
            played[chunk.start] = trajectories[0]
            progress(len(played), sum(episode.success for episode in played.values()))
    finally:
        players.stop()
    return [played[chunk.start] for chunk in chunks]


class _Players:
    """Threads that take one game after another; what they played is handed to the main thread."""

    def __init__(self, chunks: Sequence[Chunk], make_env: EnvFactory, policy: Policy) -> None:
        self._make_env, self._policy = make_env, policy
        self._waiting: SimpleQueue[Chunk] = SimpleQueue()
        self._ended: SimpleQueue[tuple[Chunk, list[Trajectory]] | BaseException] = SimpleQueue()
        for chunk in chunks:
            self._waiting.put(chunk)

    def start(self, count: int) -> None:
        for _ in range(count):
            # As daemons, because one may wait for a server when the program is to end.
            threading.Thread(target=self._play_all, daemon=True).start()

    def next_played(self) -> tuple[Chunk, list[Trajectory]]:
        """The next game that ended, in whatever order; what a player raised is raised here."""
        ended = self._ended.get()
        if isinstance(ended, BaseException):
            raise ended
        return ended

    def stop(self) -> None:
        """No further game is begun."""
        while True:
            try:
                self._waiting.get_nowait()
            except Empty:
                return

    def _play_all(self) -> None:
        while True:
            try:
                chunk = self._waiting.get_nowait()
            except Empty:
                return
            try:
                self._ended.put((chunk, play_chunk(chunk, self._make_env, self._policy)))
            except BaseException as error:
                self._ended.put(error)
                return


class _Call(NamedTuple):
    act: Callable[[], Any]
    answer: "SimpleQueue[Any]"


class _Raised(NamedTuple):
    error: BaseException


class OwnThreadEnv:
    """An environment that lives in one thread of its own, from its making to its end.

    An answer that takes longer than `seconds` is an EnvError; the thread is then left behind.
    """

    def __init__(self, make_env: EnvFactory, seconds: float) -> None:
        self._seconds, self._stuck = seconds, False
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()
        self._env: Env = self._ask("its making", make_env)
        self.name, self.max_turns = self._env.name, self._env.max_turns
        self.system_prompt = self._env.system_prompt
        self.role_prompts = role_prompts_of(self._env)

    def tasks(self, split: Any) -> Sequence[Task]:
        return self._ask("tasks", lambda: self._env.tasks(split))

    def reset(self, task: Task, *, seed: int) -> Step:
        first = self._ask("reset", lambda: self._env.reset(task, seed=seed))
        self.system_prompt = self._env.system_prompt
        self.role_prompts = role_prompts_of(self._env)
        return first

    def acting(self) -> Acting:
        return self._ask("acting", lambda: acting_in(self._env))

    def step(self, action: str) -> Step:
        return self._ask("step", lambda: self._env.step(action))

    def close(self) -> None:
        """The environment is closed and its thread has ended, unless it is stuck."""
        if not self._stuck:
            self._ask("close", self._env.close)
            self._calls.put(None)

    def _ask(self, what: str, act: Callable[[], T]) -> T:
        answer: SimpleQueue[T | _Raised] = SimpleQueue()
        self._calls.put(_Call(act, answer))
        try:
            given = answer.get(timeout=self._seconds)
        except Empty:
            self._stuck = True
            told = f"{what} took longer than {self._seconds:g} s (engine.patience)"
            raise EnvError(told) from None
        if isinstance(given, _Raised):
            raise given.error
        return given

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call.answer.put(call.act())
            except BaseException as error:
                call.answer.put(_Raised(error))
