"""Rollouts through fedse against the bare server, driven with the same prompts in the same run."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx

from fedse.agent.policy import Policy
from fedse.method.own_pace import rollout_at_own_pace
from fedse.method.rollout import choose_games
from fedse.types import Trajectory
from research.bench.pace import RolloutBench, measured, pace_of, requests_of
from research.bench.talk import Talk

STEP_SECONDS = 600.0

Complete = Callable[[httpx.Client, Sequence[int], int, int], None]
"""One request: a prompt, how many tokens to draw, and a seed."""


def bench_rollout(
    policy: Policy, url: str, complete: Complete, *, episodes: int, turns: int, seed: int
) -> RolloutBench:
    """Both paces; the server remembers no prompt of the one when the other begins."""
    with httpx.Client(base_url=url, timeout=STEP_SECONDS, trust_env=False) as http:
        _forget(http)
        played, ours = measured(partial(_through_fedse, policy, episodes, turns, seed))
        _forget(http)
        _, bare = measured(partial(_bare, http, complete, played))
    return RolloutBench(played, pace_of(played, ours), {"bare": pace_of(played, bare)})


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
        for number, (prompt, count) in enumerate(requests_of(episode)):
            complete(http, prompt, count, number)

    with ThreadPoolExecutor(len(played)) as asking:
        list(asking.map(replay, played))


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
