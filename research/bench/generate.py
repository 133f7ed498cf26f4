"""The same episodes with transformers' generate(): one left-padded batch per turn.

Either its keys and values are kept from turn to turn, which is the fair comparison with whatever
keeps them too, or every prompt is computed from the beginning.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache

from fedse.agent.policy import Policy
from fedse.method.rollout import choose_games, rollout
from fedse.types import Trajectory
from research.bench.pace import RolloutBench, TurnRequest, measured, pace_of, requests_of
from research.bench.talk import Talk

Turns = Sequence[Sequence[TurnRequest]]


def bench_lock_step(policy: Policy, *, episodes: int, turns: int, seed: int) -> RolloutBench:
    """The pace of a policy that plays all episodes in one batch, beside nobody."""
    make = partial(Talk, turns)
    games = choose_games(make().tasks("train"), episodes, seed=seed)
    play = partial(rollout, games, make, policy, round=1, batch=episodes, seed=seed)
    played, took = measured(play)
    return RolloutBench(played, pace_of(played, took), {})


def beside_generate(bench: RolloutBench, model: Any, *, seed: int) -> RolloutBench:
    """The bench with both paces of `model.generate` on the same episodes."""
    turns, paces = turns_of(bench.played), dict(bench.others)
    for name, play in WAYS.items():
        # The first call allocates and looks up what later ones reuse.
        generate_all(model, [turns[0][:1]], play, seed=seed)
        _, took = measured(partial(generate_all, model, turns, play, seed=seed))
        paces[name] = pace_of(bench.played, took)
    return bench._replace(others=paces)


def turns_of(played: Sequence[Trajectory]) -> list[list[TurnRequest]]:
    """Turn by turn the requests of all episodes that got so far."""
    by_turn = zip_longest(*map(requests_of, played))
    return [[request for request in turn if request is not None] for turn in by_turn]


def generate_all(
    model: Any, turns: Turns, play: Callable[[Any, Turns], list[Tensor]], *, seed: int
) -> list[Tensor]:
    """The tokens that the requests of each turn got; torch's own randomness is as before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return play(model, turns)


def re_encoded(model: Any, turns: Turns) -> list[Tensor]:
    """Every prompt of every turn is computed from its beginning."""
    return [_generate(model, *_padded([r.prompt for r in turn]), turn) for turn in turns]


def kept(model: Any, turns: Turns) -> list[Tensor]:
    """A turn computes what was seen since the one before, and nothing twice; all episodes last."""
    cache, drawn = DynamicCache(config=model.config), list[Tensor]()
    read = [0] * len(turns[0])
    ids_B_T = attention_B_T = torch.zeros(len(read), 0, dtype=torch.long)
    for turn in turns:
        seen = [request.prompt[n:] for request, n in zip(turn, read, strict=True)]
        ids_B_S, attention_B_S = _padded(seen)
        ids_B_T = torch.cat([ids_B_T, ids_B_S], dim=1)
        attention_B_T = torch.cat([attention_B_T, attention_B_S], dim=1)
        drawn.append(_generate(model, ids_B_T, attention_B_T, turn, past_key_values=cache))
        ids_B_T = torch.cat([ids_B_T, drawn[-1]], dim=1)
        attention_B_T = torch.cat([attention_B_T, torch.ones_like(drawn[-1])], dim=1)
        read = [len(request.prompt) + request.new_tokens for request in turn]
    return drawn


WAYS = {"generate": kept, "re-encoded": re_encoded}
"""How generate() plays, by the names of its ratios."""


def _padded(prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    rows = [torch.tensor(prompt) for prompt in prompts]
    pad = partial(pad_sequence, batch_first=True, padding_side="left")
    return pad(rows), pad([torch.ones_like(row) for row in rows])


def _generate(
    model: Any, ids_B_T: Tensor, attention_B_T: Tensor, turn: Sequence[TurnRequest], **memory: Any
) -> Tensor:
    (count,) = {request.new_tokens for request in turn}
    drawn_B_T: Tensor = model.generate(
        input_ids=ids_B_T.to(model.device),
        attention_mask=attention_B_T.to(model.device),
        **memory,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_new_tokens=count,
        max_new_tokens=count,
        pad_token_id=0,
    )
    return drawn_B_T[:, ids_B_T.shape[1] :].to(ids_B_T.device)
