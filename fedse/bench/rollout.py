"""Rollouts through fedse against the bare server, driven with the same prompts in the same run."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import httpx

from fedse.agent.policy import Policy
from fedse.bench.talk import Talk
from fedse.method.own_pace import rollout_at_own_pace
from fedse.method.rollout import choose_games
from fedse.types import Trajectory

STEP_SECONDS = 600.0


class RolloutPace(NamedTuple):
    """How fast something was."""

    generated: int
    """Tokens."""
    read: int
    """Tokens of the prompts, those a server remembers included."""
    seconds: float
    cpu_seconds: float
    """Of this process only."""

    @property
    def tokens_per_second(self) -> float:
        return self.generated / self.seconds


class RolloutBench(NamedTuple):
    """The same requests twice: through fedse, and with nothing but an HTTP client."""

    fedse: RolloutPace
    bare: RolloutPace

    @property
    def ratio(self) -> float:
        """Tokens per second of fedse as a share of the bare server's."""
        return self.fedse.tokens_per_second / self.bare.tokens_per_second


Complete = Callable[[httpx.Client, Sequence[int], int, int], None]
"""One request: a prompt, how many tokens to draw, and a seed."""


def bench_rollout(
    policy: Policy, url: str, complete: Complete, *, episodes: int, turns: int, seed: int
) -> RolloutBench:
    """Both paces; the server remembers no prompt of the one when the other begins."""
    with httpx.Client(base_url=url, timeout=STEP_SECONDS, trust_env=False) as http:
        _forget(http)
        played, ours = _measured(partial(_through_fedse, policy, episodes, turns, seed))
        _forget(http)
        _, bare = _measured(partial(_bare, http, complete, played))
    requests = [turn for episode in played for turn in episode.turns]
    generated = sum(len(turn.action_ids) for turn in requests)
    read = sum(len(prompt) for episode in played for prompt, _ in _requests(episode))
    return RolloutBench(RolloutPace(generated, read, *ours), RolloutPace(generated, read, *bare))


def _through_fedse(policy: Policy, episodes: int, turns: int, seed: int) -> list[Trajectory]:
    make = partial(Talk, turns)
    return rollout_at_own_pace(
        choose_games(make().tasks("train"), episodes, seed=seed),
        make,
        policy,
        round=1,
        batch=episodes,
        seed=seed,
        in_flight=episodes,
        step_seconds=STEP_SECONDS,
    )


def _bare(http: httpx.Client, complete: Complete, played: Sequence[Trajectory]) -> None:
    """Every episode's requests one after another, all episodes at once."""

    def replay(episode: Trajectory) -> None:
        for number, (prompt, count) in enumerate(_requests(episode)):
            complete(http, prompt, count, number)

    with ThreadPoolExecutor(len(played)) as asking:
        list(asking.map(replay, played))


def _requests(episode: Trajectory) -> list[tuple[list[int], int]]:
    """The prompts of the episode and how many tokens followed each."""
    so_far: list[int] = []
    requests = []
    for turn in episode.turns:
        so_far += turn.context_ids
        requests.append((list(so_far), len(turn.action_ids)))
        so_far += turn.action_ids
    return requests


def _measured(work: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    done = work()
    return done, (time.perf_counter() - wall, time.process_time() - cpu)


def _forget(http: httpx.Client) -> None:
    http.post("/reset_prefix_cache").raise_for_status()


def complete_by_name(model: str) -> Complete:
    """Asks the model or adapter of that name, as any client of the server would."""

    def complete(http: httpx.Client, prompt: Sequence[int], count: int, seed: int) -> None:
        body = {
            "model": model,
            "prompt": list(prompt),
            "max_tokens": count,
            "min_tokens": count,
            "ignore_eos": True,
            "temperature": 1.0,
        }
        http.post("/v1/completions", json=body).raise_for_status()

    return complete
