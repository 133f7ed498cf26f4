"""The same episodes with transformers' generate(): one left-padded batch per turn, nothing kept."""

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from fedse.agent.policy import Policy
from fedse.method.rollout import choose_games, rollout
from fedse.types import Trajectory
from research.bench.pace import RolloutBench, TurnRequest, measured, pace_of, requests_of
from research.bench.talk import Talk


def bench_lock_step(policy: Policy, *, episodes: int, turns: int, seed: int) -> RolloutBench:
    """The pace of a policy that plays all episodes in one batch, beside nobody."""
    make = partial(Talk, turns)
    games = choose_games(make().tasks("train"), episodes, seed=seed)
    play = partial(rollout, games, make, policy, round=1, batch=episodes, seed=seed)
    played, took = measured(play)
    return RolloutBench(played, pace_of(played, took), {})


def beside_generate(bench: RolloutBench, model: Any, *, seed: int) -> RolloutBench:
    """The bench with the pace of `model.generate` on the same prompts."""
    turns = turns_of(bench.played)
    # The first call allocates and looks up what later ones reuse.
    generate_all(model, [turns[0][:1]], seed=seed)
    _, took = measured(partial(generate_all, model, turns, seed=seed))
    pace = pace_of(bench.played, took)
    return bench._replace(others={**bench.others, "generate": pace})


def turns_of(played: Sequence[Trajectory]) -> list[list[TurnRequest]]:
    """Turn by turn the requests of all episodes that got so far."""
    by_turn = zip_longest(*map(requests_of, played))
    return [[request for request in turn if request is not None] for turn in by_turn]


def generate_all(
    model: Any, turns: Sequence[Sequence[TurnRequest]], *, seed: int
) -> list[list[int]]:
    """How many tokens each request of each turn got; torch's own randomness is as before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return [_generate(model, turn) for turn in turns]


def _generate(model: Any, turn: Sequence[TurnRequest]) -> list[int]:
    rows = [torch.tensor(request.prompt) for request in turn]
    pad = partial(pad_sequence, batch_first=True, padding_side="left")
    ids_B_T, attention_B_T = pad(rows), pad([torch.ones_like(row) for row in rows])
    (count,) = {request.new_tokens for request in turn}
    drawn_B_T = model.generate(
        input_ids=ids_B_T.to(model.device),
        attention_mask=attention_B_T.to(model.device),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_new_tokens=count,
        max_new_tokens=count,
        pad_token_id=0,
    )
    return [len(row) - ids_B_T.shape[1] for row in drawn_B_T]
