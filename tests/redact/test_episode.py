"""Redacted episodes: what is trained says what was sampled, but for what nobody may see."""

import re
from collections.abc import Iterator

from fedse.agent.policy import Dialogue
from fedse.agent.prompt import Encoder
from fedse.redact.episode import Redactor, pseudonyms_in
from fedse.redact.spans import Span
from fedse.types import Task, Trajectory, Turn

EOS = "</s>"


class MarkedCharacters:
    """One token per character; the end mark is a token, too."""

    eos_token, eos_token_id = EOS, 1

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt):
        text = "".join(f"<{m['role']}>{m['content']}{EOS}\n" for m in messages)
        return text + ("<assistant>" if add_generation_prompt else "")

    def encode(self, text, *, add_special_tokens):
        parts = re.split(f"({EOS})", text)
        return [i for part in parts for i in ([1] if part == EOS else [2 + ord(c) for c in part])]

    def decode(self, token_ids, *, skip_special_tokens):
        end = "" if skip_special_tokens else EOS
        return "".join(end if i == 1 else chr(i - 2) for i in token_ids)


def codes(text: str) -> Iterator[Span]:
    for match in re.finditer(r"#\d{6}", text):
        yield Span(*match.span(), "CODE")


ENCODER = Encoder(MarkedCharacters())
REDACTOR = Redactor(codes, ENCODER)


def played(*said: tuple[str, str], system: str = "play", cut: bool = False) -> Trajectory:
    """As a model would have played it; with `cut` no action ends by itself."""
    turns: tuple[Turn, ...] = ()
    for observation, action in said:
        context = ENCODER.context(Dialogue(system, turns, observation))
        ids = ENCODER.action(action)[: -1 if cut else None]
        turn = Turn(observation=observation, action=action, context_ids=context, action_ids=ids)
        turns = (*turns, turn)
    task = Task(env="desk", id="1", split="train")
    return Trajectory(
        task=task, seed=0, turns=turns, outcome="success", reward=1, policy="x", round=1
    )


def test_an_episode_without_anything_private_is_the_very_same():
    episode = played(("look", "go"), ("here", "stop"))
    assert REDACTOR.episode(episode) is episode


def test_texts_and_tokens_say_the_same_afterwards():
    """Encoding the redacted texts from the beginning gives the very tokens that are stored."""
    for cut in (False, True):
        episode = played(("code #123456", "type #123456"), ("thanks", "bye"), cut=cut)
        done = REDACTOR.episode(episode)
        texts = [(turn.observation, turn.action) for turn in done.turns]
        assert done.turns == played(*texts, cut=cut).turns
        assert done.turns[1] == episode.turns[1]
        assert "123456" not in ENCODER.marked_text(done.token_ids)
        assert REDACTOR.episode(done) is done


def test_what_was_shown_before_is_learned_and_what_was_not_is_not():
    done = REDACTOR.episode(
        played(("code #111111", "type #111111"), ("and?", "say #222222"), ("ok #222222", "#222222"))
    )
    assert [turn.learned for turn in done.turns] == [True, False, True]
    given = sum(len(turn.context_ids) for turn in done.turns)
    unlearned = len(done.turns[1].action_ids)
    assert done.loss_mask.count(False) == given + unlearned
    codes_said = [re.search(r"#\d{6}", turn.action)[0] for turn in done.turns]
    assert codes_said[0] != codes_said[1] == codes_said[2]


def test_what_was_said_among_other_words_has_no_log_probability():
    """Nor has any later turn, as it was said after those words."""
    episode = played(("look", "go"), ("code #111111", "take"), ("here", "stop"))
    drawn = [turn.model_copy(update={"log_chances": (-0.5,)}) for turn in episode.turns]
    done = REDACTOR.episode(episode.model_copy(update={"turns": tuple(drawn)}))
    assert [turn.log_chances for turn in done.turns] == [()] * 3


def test_a_secret_of_the_system_prompt_is_not_in_the_tokens_either():
    done = REDACTOR.episode(played(("look", "go"), system="the code is #123456"))
    assert done.turns[0].observation == "look"
    assert "#123456" not in ENCODER.marked_text(done.token_ids)
    assert f"the code is {done.stand_ins[0][0]}" in ENCODER.marked_text(done.token_ids)


def test_a_world_may_say_nothing():
    done = REDACTOR.episode(played(("", "#123456"), ("", "go")))
    assert [turn.learned for turn in done.turns] == [False, True]
    assert done.turns[0].action == done.stand_ins[0][0] != "#123456"


def test_without_an_encoder_a_changed_episode_has_no_tokens():
    episode = played(("code #123456", "ok"), ("thanks", "bye"))
    done = Redactor(codes).episode(episode)
    assert done.token_ids == ()
    assert ENCODER.tokenized("play", done) == REDACTOR.episode(episode), "the same pseudonyms"


def test_an_error_is_redacted_and_the_rest_of_the_record_stays():
    broken = played(("look", "go")).model_copy(
        update={"outcome": "broken", "error": "KeyError: #123456"}
    )
    done = REDACTOR.episode(broken)
    assert done.error == f"KeyError: {done.stand_ins[0][0]}" != broken.error
    kept = {"error": broken.error, "stand_ins": (), "likeness": ""}
    assert done.model_copy(update=kept) == broken


def test_equal_episodes_stay_equal_and_are_counted():
    """What differs in private values only is one lesson afterwards: the buffer is a set."""
    some, other = (
        REDACTOR.episode(played((f"code #{code}", f"type #{code}"), ("ok", "bye")))
        for code in ("111111", "222222")
    )
    assert some == other, "a stand-in follows from the shape of a value alone"
    assert some.content_digest != played(("code", "type"), ("ok", "bye")).content_digest
    assert pseudonyms_in(some) == {"CODE": 2}


def spoken(*said: tuple[str, str, str], prompts: dict[str, str]) -> Trajectory:
    """As a model of several roles would have played it; each has its own system prompt."""
    turns: tuple[Turn, ...] = ()
    for role, observation, action in said:
        past = tuple(turn for turn in turns if turn.role == role)
        ids = {
            "context_ids": ENCODER.context(Dialogue(prompts[role], past, observation)),
            "action_ids": ENCODER.action(action),
        }
        turns = (*turns, Turn(observation=observation, action=action, role=role, **ids))
    return played(("x", "y")).model_copy(update={"turns": turns})


def test_a_secret_in_the_prompt_of_any_role_leaves_no_token():
    prompts = {"planner": "plan", "worker": "work with #123456"}
    episode = spoken(("planner", "a", "b"), ("worker", "c", "d"), prompts=prompts)
    done = REDACTOR.episode(episode)
    assert done is not episode
    kept = [ENCODER.marked_text(turn.context_ids + turn.action_ids) for turn in done.turns]
    assert not [text for text in kept if "123456" in text]
    assert "work with" in kept[1]
    assert [turn.role for turn in done.turns] == ["planner", "worker"]


def test_what_one_role_was_shown_another_says_of_its_own():
    prompts = {"planner": "plan", "worker": "work"}
    said = [("planner", "use #123456", "use #123456"), ("worker", "go", "I use #123456")]
    done = REDACTOR.episode(spoken(*said, prompts=prompts))
    assert [turn.learned for turn in done.turns] == [True, False]
