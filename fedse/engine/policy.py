"""A policy that asks a server; many threads may ask at once, and no dialogue waits for another."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fedse.agent.policy import Dialogue, Reply
from fedse.agent.prompt import Encoder, tokens_so_far
from fedse.engine.client import Sampling
from fedse.engine.loaded import ActingAdapters
from fedse.seeds import seed_of
from fedse.types import Adapter


class ServedPolicy:
    """Samples from one adapter at one temperature; the server is shared with other policies."""

    keeps_shapes = True

    def __init__(
        self,
        engine: ActingAdapters,
        encoder: Encoder,
        adapter: Adapter,
        *,
        temperature: float,
        context: int,
        new_tokens: int,
        seeded: bool = False,
        to_the_end: bool = False,
        log_chances: bool = False,
    ) -> None:
        self.name = adapter.digest
        self._engine, self._encoder, self._adapter = engine, encoder, adapter
        self._temperature, self._context, self._new_tokens = temperature, context, new_tokens
        self._seeded, self._to_the_end, self._told = seeded, to_the_end, log_chances
        # Tokenizers are not thread-safe.
        self._encoding = threading.Lock()

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        """One sampled reply per dialogue; None where prompt and answer would exceed the context."""
        seeds = [seed_of(seed, i) for i in range(len(dialogues))]
        if len(dialogues) == 1:
            return [self._reply(dialogues[0], seeds[0])]
        with ThreadPoolExecutor(len(dialogues)) as asking:
            return list(asking.map(self._reply, dialogues, seeds))

    def _reply(self, dialogue: Dialogue, seed: int) -> Reply | None:
        with self._encoding:
            given = self._encoder.context(dialogue)
        prompt = (*tokens_so_far(dialogue), *given)
        if len(prompt) > self._context - self._new_tokens:
            return None
        end_id, whole = self._encoder.end_id, self._to_the_end
        own = seed if self._seeded else None
        # What has to keep a shape is drawn from another distribution than the model's.
        told, shape = self._told and dialogue.shape is None, dialogue.shape
        how = Sampling(self._temperature, self._new_tokens, end_id, own, whole, shape, told)
        action, _, chances = self._engine.sample(self._adapter, prompt, how)
        with self._encoding:
            return Reply(self._encoder.text(action), given, action, chances)
