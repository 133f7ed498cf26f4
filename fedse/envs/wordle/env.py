"""Wordle-style guessing: find a hidden five-letter word in six tries from per-letter feedback.

The published task (LMRL-Gym, as AgentGym plays it): a guess outside the word list costs a try;
feedback does not count letters; the hidden word is drawn again after every guess from the words
that fit all feedback so far. Differences: the word lists are our own, upper case is
accepted, and a failed game has reward 0, not -1. An episode is a function of (task, seed).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from random import Random
from typing import Literal

from fedse.envs.action import action_of
from fedse.envs.base import Step
from fedse.envs.options import require_one_of, require_positive, wrong_option
from fedse.errors import EnvError
from fedse.seeds import seed_of
from fedse.types import Split, Task

# Everyday words with varied letters; both lists are subsets of words.txt.
# fmt: off
SMALL = (
    "apple", "bread", "chair", "dance", "fruit", "horse",
    "light", "money", "plant", "river", "smile", "truck",
)
MEDIUM = tuple(sorted((
    *SMALL,
    "beach", "block", "cloud", "dream", "eagle", "field", "glove", "grass", "happy", "honey",
    "jelly", "knife", "lemon", "magic", "mouse", "night", "ocean", "paint", "queen", "robot",
    "sheep", "storm", "table", "tiger", "uncle", "voice", "watch", "young",
)))
# fmt: on

# With hidden = "fixed", one word in this many is a test secret.
WORDS_PER_TEST_SECRET = 5
LETTERS = 5
# Longer lists do not fit a prompt, so they are shown only with show_words.
LONGEST_SHOWN_LIST = 40
# The expert weighs this many guesses once this many words fit (full list: success 0.98 -> 0.99).
EXPERT_CANDIDATES = 12
FEW_WORDS = 64

_RULES = (
    "Find the hidden word of five letters. You have {tries} tries. After each try you see one "
    "mark per letter of your guess: g when the letter is right and in the right place, y when "
    "the hidden word has it in another place, b when the hidden word does not have it. A guess "
    "that is not in the word list is invalid and still costs a try.\n"
    "Write the letters of your guess with spaces between them, after a short thought, like this:\n"
    "Thought: the word has an a, but not in the first place.\n"
    "Action: b r e a d"
)


class Wordle:
    """An environment (fedse.Env) with an expert that guesses words which fit all feedback."""

    def __init__(
        self,
        *,
        words: Literal["small", "medium", "full"] = "medium",
        hidden: Literal["redrawn", "fixed"] = "redrawn",
        counting: bool = False,
        max_turns: int = 6,
        prompt: Literal["full", "short"] = "full",
        show_words: bool | None = None,
        tasks_per_split: Sequence[int] = (200, 50),
    ) -> None:
        require_one_of("wordle", "words", words, ("small", "medium", "full"))
        require_one_of("wordle", "hidden", hidden, ("redrawn", "fixed"))
        require_one_of("wordle", "prompt", prompt, ("full", "short"))
        require_positive("wordle", "max_turns", max_turns)
        if len(tasks_per_split) != 2:
            raise wrong_option("wordle", "tasks_per_split", tasks_per_split, "[train, test]")
        for count in tasks_per_split:
            require_positive("wordle", "tasks_per_split", count)
        self._words = word_list(words)
        self.name = "wordle"
        if show_words is None:
            show_words = prompt == "full" and len(self._words) <= LONGEST_SHOWN_LIST
        listed_words = self._words if show_words else ()
        self.system_prompt = (
            _short_prompt(words, listed_words)
            if prompt == "short"
            else _full_prompt(listed_words, max_turns)
        )
        self.max_turns = max_turns
        self._short = prompt == "short"
        self._counting = counting
        train, test = tasks_per_split
        self._tasks, self._secrets = _world(words, hidden, counting, train, test)
        self._open = False
        self._fitting: Sequence[str] = ()
        """The words that agree with all feedback of the open episode."""
        self._turns = 0
        self._seed = 0
        self._secret: str | None = None

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks[split]

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._secrets:
            raise EnvError(
                f"wordle has no {task.split} task {task.id!r} of {task.env!r} under these options",
                hint="take tasks from tasks(split) of an environment with the same options",
            )
        self._secret = self._secrets[task]
        self._seed = seed_of("wordle", task.id, seed)
        self._fitting, self._turns, self._open = self._words, 0, True
        return Step("start" if self._short else f"The game starts; you have {self._tries()}.")

    def step(self, action: str) -> Step:
        self._require_open()
        guess = "".join(action_of(action).lower().split())
        turn = self._turns
        self._turns += 1
        if guess not in self._words:
            answer = self._answer("invalid" if self._short else "That is not in the word list")
            return answer._replace(valid=len(guess) == LETTERS)
        drawn = Random(seed_of(self._seed, "hidden", turn)).choice(self._fitting)
        given = marks(guess, self._secret or drawn, counting=self._counting)
        self._fitting = [
            word for word in self._fitting if marks(guess, word, counting=self._counting) == given
        ]
        return self._answer(spaced(given), won=given == "ggggg")

    def actions(self) -> Sequence[str]:
        """Every word of the list, spelled as the prompt asks."""
        return tuple(spaced(word) for word in self._words)

    def expert(self) -> str:
        """A word that fits all feedback; always the same in the same state.

        With few words left, the candidate whose possible marks differ most.
        """
        self._require_open()
        random = Random(seed_of(self._seed, "expert", self._turns))
        if len(self._fitting) > FEW_WORDS:
            return spaced(random.choice(self._fitting))
        candidates = random.sample(self._fitting, min(EXPERT_CANDIDATES, len(self._fitting)))
        return spaced(max(candidates, key=self._count_outcomes))

    def close(self) -> None:
        self._open = False

    def _require_open(self) -> None:
        if not self._open:
            raise EnvError(
                "wordle: no episode is open; expected reset() first, got a guess before it or "
                "after done",
                hint="call reset(task, seed=...) before step() and expert()",
            )

    def _count_outcomes(self, guess: str) -> int:
        return len({marks(guess, word, counting=self._counting) for word in self._fitting})

    def _answer(self, observation: str, *, won: bool = False) -> Step:
        over = won or self._turns >= self.max_turns
        if over:
            self._open = False
        if not self._short:
            end = "Success" if won else "Failure" if over else f"You have {self._tries()} left."
            observation = f"{observation}. {end}"
        return Step(observation, reward=float(won), done=over, success=won)

    def _tries(self) -> str:
        left = self.max_turns - self._turns
        return f"{left} {'try' if left == 1 else 'tries'}"


@cache
def word_list(name: str) -> tuple[str, ...]:
    """The words of a list, in alphabetical order."""
    if name == "small":
        return SMALL
    if name == "medium":
        return MEDIUM
    return tuple(files("fedse.envs.wordle").joinpath("words.txt").read_text("utf-8").split())


def marks(guess: str, hidden: str, *, counting: bool = False) -> str:
    """One of g, y, b per letter of the guess; `ggggg` exactly when the words are equal.

    Without counting, a letter is y wherever it stands if the hidden word has it at all (the
    published rule). With counting, each letter of the hidden word accounts for only one mark.
    """
    if not counting:
        return "".join(
            "g" if letter == true else "y" if letter in hidden else "b"
            for letter, true in zip(guess, hidden, strict=True)
        )
    given = ["g" if letter == true else "b" for letter, true in zip(guess, hidden, strict=True)]
    unexplained = [true for true, mark in zip(hidden, given, strict=True) if mark == "b"]
    for place, letter in enumerate(guess):
        if given[place] == "b" and letter in unexplained:
            given[place] = "y"
            unexplained.remove(letter)
    return "".join(given)


def spaced(word: str) -> str:
    """The letters with single spaces, so that each is its own token."""
    return " ".join(word)


def _short_prompt(words: str, listed_words: Sequence[str]) -> str:
    """Names the word list, so that a player who knows it knows which words are valid."""
    return " ".join(["word", words, ", ".join(spaced(word) for word in listed_words)]).strip()


def _full_prompt(listed_words: Sequence[str], tries: int) -> str:
    word_text = ", ".join(spaced(word) for word in listed_words)
    return _RULES.format(tries=tries) + (f"\nThe word list: {word_text}." if listed_words else "")


@cache
def _world(
    words: str, hidden: str, counting: bool, train: int, test: int
) -> tuple[Mapping[Split, Sequence[Task]], Mapping[Task, str | None]]:
    """Both task lists and each task's secret, if it has one; kept, as a rollout makes many."""
    shuffled = list(word_list(words))
    Random(seed_of("wordle secrets", words)).shuffle(shuffled)
    for_test = len(shuffled) // WORDS_PER_TEST_SECRET
    pools: Mapping[Split, Sequence[str]] = {
        "train": shuffled[for_test:],
        "test": shuffled[:for_test],
    }
    rules = f"{words}-{hidden}" + ("-counting" if counting else "")
    tasks: dict[Split, Sequence[Task]] = {}
    secrets: dict[Task, str | None] = {}
    sizes: Mapping[Split, int] = {"train": train, "test": test}
    for split, size in sizes.items():
        # More tasks than words would only repeat problems.
        chosen = [None] * size if hidden == "redrawn" else pools[split][:size]
        secret_of = {
            Task(env="wordle", id=f"{rules}/{split}-{i}", split=split): secret
            for i, secret in enumerate(chosen)
        }
        tasks[split], secrets = tuple(secret_of), secrets | secret_of
    return tasks, secrets
