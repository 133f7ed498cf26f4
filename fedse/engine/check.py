"""Does a server fit this experiment: its model, its tokens, and adapters that take effect?"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from fedse.adapters.base import initial_adapter
from fedse.agent.policy import Dialogue
from fedse.agent.prompt import Encoder
from fedse.config.schema import Config
from fedse.engine.client import EngineClient, Sampling
from fedse.engine.loaded import ActingAdapters
from fedse.engine.ways_in import WAYS_IN
from fedse.errors import RunError
from fedse.types import Adapter, AdapterSpec

PROBE = "Which tools do you have, and what would you try first in a room with three closed doors?"
CLOSE = 0.15
"""Nats by which log-probabilities of one model may differ on average, bfloat16 against float32."""
NOISE = 0.05
"""Standard deviation of the test adapters' weights; larger than training ever makes them."""


class EngineCheck(NamedTuple):
    ok: bool
    what: str
    fix: str = ""


def check_engine(
    config: Config,
    spec: AdapterSpec,
    encoder: Encoder,
    client: EngineClient,
    acting: ActingAdapters,
    expected: Sequence[float],
) -> Iterator[EngineCheck]:
    """The findings one by one, ending with the first failure.

    `expected` are the log-probabilities this machine's base model gives to the probe's tokens.
    """
    if not client.answers():
        start = "start one (fedse engine start EXPERIMENT), or correct engine.url"
        yield EngineCheck(False, f"no server answers at {client.url}", start)
        return
    yield EngineCheck(True, f"a server answers at {client.url}")
    prompt = probe(encoder)
    how = Sampling(0.0, 8, encoder.end_id, 1)
    zero, loud = initial_adapter(spec, seed=0), _loud(spec)
    try:
        began = perf_counter()
        first = acting.sample(zero, prompt, how).ids
        seconds = perf_counter() - began
        yield EngineCheck(True, f"token ids in and out; loading an adapter takes {seconds:.1f} s")
        given = client.prompt_logprobs(_name_of(client, zero), prompt)
        yield _same_model(given, expected)
        other = acting.sample(loud, prompt, how).ids
        again = acting.sample(zero, prompt, how).ids
    except RunError as error:
        yield EngineCheck(False, str(error), _settings(config))
        return
    if other == first:
        yield EngineCheck(False, "two different adapters give the same answer", _settings(config))
        return
    yield EngineCheck(again == first, "two adapters answer differently, each consistently")


def probe(encoder: Encoder) -> tuple[int, ...]:
    """The tokens for which both sides compute log-probabilities."""
    return encoder.context(Dialogue("", (), PROBE))


def own_logprobs(base: Path, spec: AdapterSpec, prompt: Sequence[int]) -> list[float]:
    """This machine's log-probability for each token of `prompt` but the first."""
    import torch

    from fedse.agent.loaded import load_base

    loaded = load_base(base)
    # An adapter that changes nothing, so that nothing merged earlier remains.
    loaded.merge(initial_adapter(spec, seed=0))
    with torch.inference_mode():
        logits = loaded.model(torch.tensor([list(prompt)])).logits[0]
    scores = torch.log_softmax(logits.float(), dim=-1)
    return [float(scores[i, token]) for i, token in enumerate(prompt[1:])]


def _same_model(given: Sequence[float], expected: Sequence[float]) -> EngineCheck:
    off = float(np.mean(np.abs(np.array(given) - np.array(expected))))
    figure = f"log-probabilities differ by {off:.3f} nats on average"
    if off <= CLOSE:
        return EngineCheck(True, f"its base model is the one on this machine: {figure}")
    return EngineCheck(
        False, f"its base model is a different one: {figure}, expected at most {CLOSE}", "--model"
    )


def _name_of(client: EngineClient, adapter: Adapter) -> str:
    names = client.models()
    return adapter.digest if adapter.digest in names else next(iter(names))


def _loud(spec: AdapterSpec) -> Adapter:
    noise = np.random.default_rng(0).normal(0.0, NOISE, spec.size)
    return Adapter(spec, (initial_adapter(spec, seed=0).vector + noise).astype(np.float32))


def _settings(config: Config) -> str:
    way = config.engine.adapters
    return f"engine.adapters = {way!r} needs a server started with {WAYS_IN[way].needs}"
