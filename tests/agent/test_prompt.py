import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.agent.policy import Dialogue
from fedse.agent.prompt import Encoder
from fedse.errors import ConfigError
from fedse.types import Task, Trajectory, Turn

EOS = "</s>"


class Characters:
    """One token per character, and a chat template written in Python."""

    eos_token, eos_token_id = EOS, 1

    def __init__(self, template) -> None:
        self.apply_chat_template = template

    def encode(self, text, *, add_special_tokens):
        ids = []
        while text:
            special = text.startswith(EOS)
            ids.append(1 if special else 2 + ord(text[0]))
            text = text[len(EOS) if special else 1 :]
        return ids

    def decode(self, token_ids, *, skip_special_tokens):
        return "".join(EOS if i == 1 else chr(i - 2) for i in token_ids if i != 1)


def chatml(messages, *, tokenize, add_generation_prompt):
    text = "".join(f"[{m['role']}]{m['content']}{EOS}\n" for m in messages)
    return text + ("[assistant]" if add_generation_prompt else "")


def forgetful(messages, *, tokenize, add_generation_prompt):
    """Drops what the assistant said before its last answer, as reasoning templates do."""
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    kept = [m for i, m in enumerate(messages) if m["role"] != "assistant" or i == last]
    if messages[-1]["role"] == "user":
        kept = [m for m in messages if m["role"] != "assistant"]
    return chatml(kept, tokenize=tokenize, add_generation_prompt=add_generation_prompt)


def endless(messages, *, tokenize, add_generation_prompt):
    return "".join(m["content"] for m in messages)


plain = st.text(alphabet="abc <\n", max_size=8)


@given(system=plain, said=st.lists(st.tuples(plain, plain), min_size=1, max_size=4))
def test_the_pieces_are_the_whole_conversation(system, said):
    """Context and action tokens, one after another, spell what the template renders."""
    tokenizer = Characters(chatml)
    turns = tuple(Turn(observation=o, action=a) for o, a in said)
    task = Task(env="e", id="1", split="train")
    episode = Trajectory(
        task=task, seed=0, turns=turns, outcome="success", reward=1, policy="x", round=0
    )
    tokens = Encoder(tokenizer).tokenized(system, episode).token_ids
    messages = [{"role": "system", "content": system}] if system else []
    for observation, action in said:
        messages.append({"role": "user", "content": observation})
        messages.append({"role": "assistant", "content": action})
    whole = chatml(messages, tokenize=False, add_generation_prompt=False)
    # The newline after the last answer is given to the model only with the next observation.
    assert list(tokens) == tokenizer.encode(whole, add_special_tokens=False)[:-1]


def test_an_answer_cut_short_is_closed_in_the_context():
    encoder = Encoder(Characters(chatml))
    cut = Turn(observation="o", action="a", context_ids=(5,), action_ids=(99,))
    whole = cut.model_copy(update={"action_ids": (99, 1)})
    after_cut = encoder.context(Dialogue("", (cut,), "next"))
    after_whole = encoder.context(Dialogue("", (whole,), "next"))
    assert after_cut == (1, *after_whole)


def test_sampled_tokens_are_never_replaced():
    turn = Turn(observation="o", action="whatever", context_ids=(7,), action_ids=(8, 1))
    task = Task(env="e", id="1", split="train")
    episode = Trajectory(
        task=task, seed=0, turns=(turn,), outcome="success", reward=1, policy="x", round=1
    )
    assert Encoder(Characters(chatml)).tokenized("s", episode) is episode


def test_an_episode_told_in_other_words_gets_the_tokens_of_those_words():
    """What the agent said keeps its tokens, also where they do not spell the text."""
    encoder = Encoder(Characters(chatml))
    said = Turn(observation="o", action="ab", action_ids=(98, 1))
    cut = said.model_copy(update={"action_ids": (97, 98)})
    turns = (cut, said, said)
    task = Task(env="e", id="1", split="train")
    episode = Trajectory(
        task=task, seed=0, turns=turns, outcome="success", reward=1, policy="x", round=1
    )
    told = encoder.tokenized("s", episode)
    assert [turn.action_ids for turn in told.turns] == [(97, 98), (98, 1), (98, 1)]
    given = [encoder.context(Dialogue("s", told.turns[:i], "o")) for i in range(3)]
    assert [turn.context_ids for turn in told.turns] == given
    assert given[1] == (1, *given[2])


def test_a_template_that_rewrites_the_past_is_refused():
    encoder = Encoder(Characters(forgetful))
    spoken = Turn(observation="o", action="a", action_ids=(3, 1))
    with pytest.raises(ConfigError, match="rewrites earlier turns"):
        encoder.context(Dialogue("", (spoken,), "next"))


def test_a_template_without_an_end_token_is_refused():
    with pytest.raises(ConfigError, match="ends an answer with"):
        Encoder(Characters(endless))
