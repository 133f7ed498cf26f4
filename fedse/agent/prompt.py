"""Dialogue <-> tokens. What the model is given and what it says are kept apart, token by token.

The context of a turn is what the chat template puts between two actions, so the tokens of an
episode are the concatenation of what was given and what was sampled: nothing is tokenised twice.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Protocol

from fedse.agent.calls import FunctionCall, read_calls
from fedse.agent.conversations import speaker_of, turns_with
from fedse.agent.policy import Dialogue
from fedse.errors import ConfigError
from fedse.types import Trajectory, Turn

# Contents of the probe messages: any text that no template contains.
PROBE_QUESTION, PROBE_ANSWER, PROBE_RESULT = "fedse-asked", "fedse-said", "fedse-returned"
PROBE_CALL = FunctionCall("fedse_probe", '{"key": "value"}')

NO_PROMPTS: Mapping[str, str] = {}

ChatMessage = Mapping[str, Any]
"""As chat templates take them: a role, a content, and calls."""


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
        shown: list[ChatMessage] = [message._asdict() for message in dialogue.messages]
        shown = shown or [_asked(dialogue.observation)]
        if not dialogue.turns:
            opening = [*_system_message(dialogue.system), *shown]
            tools = json.loads(dialogue.tools or "null")
            return self._encode(_render(self._tokenizer, opening, reply=True, tools=tools))
        last = dialogue.turns[-1].action_ids
        closed = bool(last) and last[-1] == self._tokenizer.eos_token_id
        text = self._after_action(shown)
        return self._encode(text if closed else self._tokenizer.eos_token + text)

    @cached_property
    def template_has_tools(self) -> bool:
        """Whether the chat template lists tools and writes calls as they are read here."""
        try:
            return _has_tools(self._tokenizer)
        except Exception:  # templates raise what they like at a role they do not know
            return False

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

    def marked_text(self, ids: Sequence[int]) -> str:
        """The text of `ids` with the marks of the chat template in it."""
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def marked_ids(self, text: str) -> tuple[int, ...]:
        """The tokens of a text that has the marks of the chat template in it, if any."""
        return self._encode(text)

    def tokenized(
        self, system: str, episode: Trajectory, prompts: Mapping[str, str] = NO_PROMPTS
    ) -> Trajectory:
        """The episode with tokens in every turn; sampled tokens are never replaced.

        An episode that was shown in other words than it was played in has actions with tokens and
        no other tokens. `prompts` are the system prompts of roles that have one of their own.
        """
        sampled = all(turn.action_ids for turn in episode.turns)
        if sampled and any(turn.context_ids for turn in episode.turns):
            return episode
        turns: list[Turn] = []
        for turn in episode.turns:
            past = turns_with(turns, *speaker_of(turn))
            opening = prompts.get(turn.role, system)
            context = self.context(Dialogue(opening, past, turn.observation))
            action = turn.action_ids if sampled else self.action(turn.action)
            # Under other tokens than it was drawn after, an action has another chance.
            ids = {"context_ids": context, "action_ids": action, "log_chances": ()}
            turns.append(turn.model_copy(update=ids))
        return episode.model_copy(update={"turns": tuple(turns)})

    def _encode_once(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def as_texts(episode: Trajectory) -> Trajectory:
    """The episode without tokens, for a model that did not sample them."""
    none = {"context_ids": (), "action_ids": (), "log_chances": ()}
    turns = tuple(turn.model_copy(update=none) for turn in episode.turns)
    return episode.model_copy(update={"turns": turns})


def tokens_so_far(dialogue: Dialogue) -> tuple[int, ...]:
    """What the model was given and what it sampled in the turns before this one."""
    return tuple(i for turn in dialogue.turns for i in (*turn.context_ids, *turn.action_ids))


def _after_action(tokenizer: Tokenizer) -> Any:
    """A function from the messages that are shown next to the text between two actions.

    Found by rendering probe messages; a template that rewrites earlier turns is refused, because
    then what was trained would not be what was seen.
    """
    past: list[ChatMessage] = [
        _asked(PROBE_QUESTION),
        {"role": "assistant", "content": PROBE_ANSWER},
    ]
    before = _render(tokenizer, past, reply=False)
    tail = before.rpartition(PROBE_ANSWER)[2]
    if not tail.startswith(tokenizer.eos_token):
        raise ConfigError(
            f"the chat template ends an answer with {tail!r}, not with {tokenizer.eos_token!r}",
            hint="use a tokenizer whose end token is its eos_token",
        )
    rest = tail.removeprefix(tokenizer.eos_token)

    def render(shown: Sequence[ChatMessage]) -> str:
        after = _render(tokenizer, [*past, *shown], reply=True)
        if not after.startswith(before):
            raise ConfigError("the chat template rewrites earlier turns, so tokens cannot be kept")
        return rest + after.removeprefix(before)

    return render


def _has_tools(tokenizer: Tokenizer) -> bool:
    """A probe tool is offered, a call of it is read back, and what it returned is shown."""
    call = {"name": PROBE_CALL.name, "arguments": json.loads(PROBE_CALL.arguments)}
    tools = [{"type": "function", "function": {"name": PROBE_CALL.name, "parameters": {}}}]
    asked, said = _asked(PROBE_QUESTION), {"role": "assistant", "content": PROBE_ANSWER}
    calls = [{"type": "function", "function": call}]
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    result = {"role": "tool", "content": PROBE_RESULT}
    opening = _render(tokenizer, [asked], reply=True, tools=tools)
    whole = _render(tokenizer, [asked, called], reply=False, tools=tools)
    before = _render(tokenizer, [asked, said], reply=False, tools=tools)
    after = _render(tokenizer, [asked, said, result], reply=True, tools=tools)
    read = read_calls(whole.removeprefix(opening), lambda name, _: name == PROBE_CALL.name)
    return (
        PROBE_CALL.name in opening
        and whole.startswith(opening)
        and read.calls == (PROBE_CALL,)
        and after.startswith(before)
        and PROBE_RESULT in after.removeprefix(before)
    )


def _asked(text: str) -> ChatMessage:
    return {"role": "user", "content": text}


def _system_message(system: str) -> list[ChatMessage]:
    return [{"role": "system", "content": system}] if system else []


def _render(
    tokenizer: Tokenizer,
    messages: Sequence[ChatMessage],
    *,
    reply: bool,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    offered = {"tools": tools} if tools else {}
    rendered: str = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=reply, **offered
    )
    return rendered
