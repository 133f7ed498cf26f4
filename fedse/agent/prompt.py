"""Dialogue <-> tokens. What the model is given and what it says are kept apart, token by token.

The context of a turn is what the chat template puts between two actions, so the tokens of an
episode are the concatenation of what was given and what was sampled: nothing is tokenised twice.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from fedse.agent.policy import Dialogue
from fedse.errors import ConfigError
from fedse.types import Trajectory, Turn

# Contents of the probe messages: any text that no template contains.
PROBE_QUESTION, PROBE_ANSWER = "fedse-asked", "fedse-said"


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used here."""

    eos_token: str
    eos_token_id: int

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...
    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...
    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str: ...


class Encoder:
    """Turns the pieces of a dialogue into tokens with one tokenizer's chat template."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._encode = lru_cache(maxsize=65536)(self._encode_once)
        self._after_action = _after_action(tokenizer)

    def context(self, dialogue: Dialogue) -> tuple[int, ...]:
        """The tokens between the last action, or the beginning, and the next action."""
        if not dialogue.turns:
            return self._opening(dialogue.system, dialogue.observation)
        last = dialogue.turns[-1].action_ids
        closed = bool(last) and last[-1] == self._tokenizer.eos_token_id
        text = self._after_action(dialogue.observation)
        return self._encode(text if closed else self._tokenizer.eos_token + text)

    @property
    def end_id(self) -> int:
        """The token that ends an action."""
        return self._tokenizer.eos_token_id

    def action(self, text: str) -> tuple[int, ...]:
        """The tokens a model would have sampled to say `text` and stop."""
        return self._encode(text + self._tokenizer.eos_token)

    def text(self, action_ids: Sequence[int]) -> str:
        """What was said, without the end token."""
        return self._tokenizer.decode(action_ids, skip_special_tokens=True)

    def tokenized(self, system: str, episode: Trajectory) -> Trajectory:
        """The episode with tokens in every turn; sampled tokens are never replaced.

        An episode that was shown in other words than it was played in has actions with tokens and
        no other tokens.
        """
        sampled = all(turn.action_ids for turn in episode.turns)
        if sampled and any(turn.context_ids for turn in episode.turns):
            return episode
        turns: list[Turn] = []
        for turn in episode.turns:
            context = self.context(Dialogue(system, tuple(turns), turn.observation))
            action = turn.action_ids if sampled else self.action(turn.action)
            ids = {"context_ids": context, "action_ids": action}
            turns.append(turn.model_copy(update=ids))
        return episode.model_copy(update={"turns": tuple(turns)})

    def _opening(self, system: str, observation: str) -> tuple[int, ...]:
        messages = _opening_messages(system, observation)
        return self._encode(_render(self._tokenizer, messages, reply=True))

    def _encode_once(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def tokens_so_far(dialogue: Dialogue) -> tuple[int, ...]:
    """What the model was given and what it sampled in the turns before this one."""
    return tuple(i for turn in dialogue.turns for i in (*turn.context_ids, *turn.action_ids))


def _after_action(tokenizer: Tokenizer) -> Any:
    """A function from the next observation to the text between two actions.

    Found by rendering probe messages; a template that rewrites earlier turns is refused, because
    then what was trained would not be what was seen.
    """
    past = [*_opening_messages("", PROBE_QUESTION), {"role": "assistant", "content": PROBE_ANSWER}]
    before = _render(tokenizer, past, reply=False)
    tail = before.rpartition(PROBE_ANSWER)[2]
    if not tail.startswith(tokenizer.eos_token):
        raise ConfigError(
            f"the chat template ends an answer with {tail!r}, not with {tokenizer.eos_token!r}",
            hint="use a tokenizer whose end token is its eos_token",
        )
    rest = tail.removeprefix(tokenizer.eos_token)

    def render(observation: str) -> str:
        question = {"role": "user", "content": observation}
        after = _render(tokenizer, [*past, question], reply=True)
        if not after.startswith(before):
            raise ConfigError("the chat template rewrites earlier turns, so tokens cannot be kept")
        return rest + after.removeprefix(before)

    return render


def _opening_messages(system: str, observation: str) -> list[Mapping[str, str]]:
    opening = [{"role": "system", "content": system}] if system else []
    return [*opening, {"role": "user", "content": observation}]


def _render(tokenizer: Tokenizer, messages: Sequence[Mapping[str, str]], *, reply: bool) -> str:
    rendered: str = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=reply
    )
    return rendered
