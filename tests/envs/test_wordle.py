"""Wordle-style guessing: laws of the marks, of the redrawn word, of the splits and the lists."""

from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.envs.base import Env, ExpertEnv
from fedse.envs.wordle.env import Wordle, marks, spaced, word_list
from fedse.errors import ConfigError, EnvError
from fedse.types import Task

# Few letters, so that repeated ones are common.
FIVE = st.text("abcd", min_size=5, max_size=5)
SEEDS = st.integers(0, 2**31)


def started(seed: int = 0, **options: Any) -> Wordle:
    game = Wordle(words="small", **options)
    game.reset(game.tasks("train")[0], seed=seed)
    return game


def test_is_an_environment_with_an_expert() -> None:
    assert isinstance(Wordle(), Env)
    assert isinstance(Wordle(), ExpertEnv)


@pytest.mark.parametrize(
    ("guess", "hidden", "plain", "counted"),
    [
        ("shire", "shire", "ggggg", "ggggg"),
        ("apple", "plant", "yyyyb", "yybyb"),
        ("hello", "lemon", "bgyyy", "bgyby"),
        ("robot", "ocean", "bybyb", "bybbb"),
        ("eerie", "level", "ygbby", "ygbbb"),
    ],
)
def test_known_marks(guess: str, hidden: str, plain: str, counted: str) -> None:
    assert marks(guess, hidden) == plain
    assert marks(guess, hidden, counting=True) == counted


@given(FIVE, FIVE, st.booleans())
def test_all_green_means_equal(guess: str, hidden: str, counting: bool) -> None:
    given_marks = marks(guess, hidden, counting=counting)
    assert (given_marks == "ggggg") == (guess == hidden)
    assert [mark == "g" for mark in given_marks] == [
        a == b for a, b in zip(guess, hidden, strict=True)
    ]


@given(FIVE, FIVE)
def test_without_counting_black_means_absent(guess: str, hidden: str) -> None:
    for letter, mark in zip(guess, marks(guess, hidden), strict=True):
        assert (mark == "b") == (letter not in hidden)


@given(FIVE, FIVE)
def test_with_counting_a_letter_is_marked_as_often_as_both_words_have_it(
    guess: str, hidden: str
) -> None:
    counted = marks(guess, hidden, counting=True)
    for letter in set(guess):
        marked = sum(m != "b" for x, m in zip(guess, counted, strict=True) if x == letter)
        assert marked == min(guess.count(letter), hidden.count(letter))


@given(SEEDS, st.lists(st.sampled_from(word_list("small")), min_size=1, max_size=6))
def test_some_word_always_fits_all_marks(seed: int, guesses: list[str]) -> None:
    game, told = started(seed), list[tuple[str, str]]()
    for guess in guesses:
        step = game.step(spaced(guess))
        told.append((guess, step.observation[:9].replace(" ", "")))
        if step.done:
            break
    assert any(all(marks(g, word) == m for g, m in told) for word in word_list("small"))


@given(SEEDS)
def test_the_experts_guess_fits_all_marks_so_far(seed: int) -> None:
    game, told, done = started(seed, prompt="short"), list[tuple[str, str]](), False
    while not done:
        guess = game.expert()
        assert game.expert() == guess
        assert all(marks(g, guess.replace(" ", "")) == m for g, m in told)
        step = game.step(guess)
        told.append((guess.replace(" ", ""), step.observation.replace(" ", "")))
        done = step.done
    assert step.success


def winning_word(seed: int) -> str:
    game = started(seed, hidden="fixed", max_turns=12)
    return next(word for word in word_list("small") if game.step(word).success)


@given(SEEDS)
def test_a_fixed_word_stays_the_same_whatever_the_seed(seed: int) -> None:
    assert winning_word(seed) == winning_word(0)


def test_redrawn_words_differ_between_seeds_and_tasks() -> None:
    game = Wordle(words="medium")
    seen = set()
    for task in game.tasks("train")[:5]:
        for seed in range(5):
            game.reset(task, seed=seed)
            seen.add(game.step("t a b l e").observation)
    assert len(seen) > 5


@pytest.mark.parametrize(
    "text", ["a p p l e", "apple", " APPLE\n", "Thought: x\nAction: a p p l e"]
)
def test_a_guess_may_be_spelled_in_many_ways(text: str) -> None:
    assert started(prompt="short").step(text) == started(prompt="short").step("apple")


@pytest.mark.parametrize("text", ["", "zzzzz", "app le s", "appl", "shire"])
def test_an_invalid_word_costs_a_try_and_tells_nothing(text: str) -> None:
    game = started(prompt="short", max_turns=2)
    five_letters = len(text.replace(" ", "")) == 5
    assert game.step(text)[:5] == ("invalid", 0.0, False, False, five_letters)
    assert game.step(text)[:5] == ("invalid", 0.0, True, False, five_letters)
    with pytest.raises(EnvError):
        game.step("apple")


def test_a_win_on_the_last_try_counts() -> None:
    game = started(hidden="fixed", max_turns=2)
    game.step("no word")
    step = game.step(winning_word(0))
    assert step[:5] == ("g g g g g. Success", 1.0, True, True, True)


def test_full_answers_tell_the_tries_left() -> None:
    game = Wordle()
    assert game.reset(game.tasks("test")[0], seed=1).observation.endswith("6 tries.")
    assert game.step("hm").observation == "That is not in the word list. You have 5 tries left."


def test_the_words_are_shown_in_full_prompts_of_short_lists_only() -> None:
    assert "q u e e n" in Wordle().system_prompt
    assert "q u e e n" not in Wordle(show_words=False).system_prompt
    assert "q u e e n" not in Wordle(words="full").system_prompt
    assert "q u e e n" in Wordle(words="full", show_words=True).system_prompt
    assert Wordle(prompt="short").system_prompt == "word medium"
    assert Wordle(prompt="short", words="small").system_prompt == "word small"


def test_lists_are_sorted_subsets_of_the_shipped_words() -> None:
    small, medium, full = (word_list(name) for name in ("small", "medium", "full"))
    assert (len(small), len(medium), len(full)) == (12, 40, 1348)
    assert set(small) < set(medium) < set(full)
    for words in (small, medium, full):
        assert list(words) == sorted(set(words))
        assert all(len(w) == 5 and w.isascii() and w.islower() and w.isalpha() for w in words)


def test_the_word_list_ships_with_its_licence() -> None:
    notice = files("fedse.envs.wordle").joinpath("words.LICENSE.txt").read_text("utf-8")
    assert "Copyright 2000-2011 by Kevin Atkinson" in notice


@pytest.mark.parametrize("words", ["small", "medium", "full"])
def test_fixed_secrets_are_disjoint_between_the_splits(words: Any) -> None:
    game = Wordle(words=words, hidden="fixed", tasks_per_split=[9999, 9999])
    secrets = {split: {game._secrets[t] for t in game.tasks(split)} for split in ("train", "test")}
    assert not secrets["train"] & secrets["test"]
    assert secrets["train"] | secrets["test"] == set(word_list(words))


def test_the_number_of_tasks_is_as_asked() -> None:
    game = Wordle(tasks_per_split=[7, 3])
    assert (len(game.tasks("train")), len(game.tasks("test"))) == (7, 3)


def test_foreign_tasks_are_refused() -> None:
    with pytest.raises(EnvError, match="elsewhere"):
        Wordle().reset(Task(env="wordle", id="elsewhere", split="train"), seed=0)


@pytest.mark.parametrize(
    "options",
    [{"words": "huge"}, {"hidden": "never"}, {"prompt": "long"}, {"max_turns": 0},
     {"tasks_per_split": [3]}, {"tasks_per_split": [3, 0]}],
)  # fmt: skip
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))) as caught:
        Wordle(**options)
    assert caught.value.hint


@given(st.lists(st.one_of(st.text(), st.sampled_from(word_list("small"))), min_size=1, max_size=6))
def test_no_sequence_of_texts_raises(texts: list[str]) -> None:
    game = started()
    for text in texts:
        step = game.step(text)
        assert step.success == (step.reward == 1.0)
        if step.done:
            break
