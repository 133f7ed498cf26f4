"""Programs that own their loop play a round, as a function or as a command, well or badly."""

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("starlette", "uvicorn")

from loopback import GAMES, Letters, bot, chat, user

from fedse.agent.calls import Said
from fedse.agent.policy import Dialogue, Reply
from fedse.envs.base import make_env
from fedse.errors import ConfigError, EnvError
from fedse.method.rollout import choose_games
from fedse.types import Trajectory
from fedse_agents.batch_queue import BatchQueue
from fedse_agents.conversation import Conversation, ShownAndAnswered, asked
from fedse_agents.play import play_program
from fedse_agents.program import Program
from fedse_agents.record import RecordedEpisode

HUNG = threading.Event()
TOGETHER = threading.Barrier(len(GAMES), timeout=60)


def walk(base_url: str, task: str) -> float:
    """A program of three turns; the task `train-1` raises and `train-2` is not solved."""
    said: list[dict[str, str]] = []
    TOGETHER.wait()
    for text in ("ab", "cd", "ef"):
        said.append(user(text))
        said.append(bot(chat(base_url, said)))
    if task == "train-1":
        raise ValueError("lost")
    return 0.0 if task == "train-2" else True


@pytest.fixture
def played_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Trajectory]]:
    monkeypatch.setitem(sys.modules, "walking_program", sys.modules[__name__])

    def played(policy: Letters, **options: Any) -> list[Trajectory]:
        made = Program(train=4, test=1, **options)
        return play_program(GAMES, lambda: made, policy, round=2, batch=64, seed=0)

    return played


def test_a_function_plays_a_round(
    played_with: Callable[..., list[Trajectory]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The wait for company ends when all open episodes have asked, however long it may last.
    monkeypatch.setitem(BatchQueue.__init__.__kwdefaults__, "window", 60.0)
    policy = Letters()
    played = played_with(policy, play="walking_program:walk")
    assert [episode.outcome for episode in played] == ["success", "broken", "failure", "success"]
    assert [episode.task.id for episode in played] == [game.task.id for game in GAMES]
    assert played[1].error == "play raised ValueError: lost"
    assert [len(episode.turns) for episode in played] == [3] * 4
    assert {episode.round for episode in played} == {2}
    assert policy.threads == {threading.get_ident()}, "the policy acts where it was made"
    assert policy.batches == [4, 4, 4]


def stuck(base_url: str, task: str) -> float:
    chat(base_url, [user("ab")])
    if task in ("train-0", "train-1"):
        HUNG.wait()
    return 1.0


def test_a_function_that_hangs_is_given_up(played_with: Callable[..., list[Trajectory]]) -> None:
    """Or this would never end."""
    played = played_with(Letters(), play="walking_program:stuck", parallel=1, timeout=1)
    HUNG.set()
    assert [episode.outcome for episode in played] == ["broken", "broken", "success", "success"]
    assert played[0].error == "the program did not end in 1 s"


COMMAND = """
import json, os, sys
from urllib.request import Request, urlopen
def post(url, body, key=""):
    data, headers = json.dumps(body).encode(), {"Authorization": "Bearer " + key}
    return json.load(urlopen(Request(url, data, headers)))
def one(base_url, reward_url):
    post(base_url + "/chat/completions", {"messages": [{"role": "user", "content": "ab"}]})
    post(reward_url, {"reward": 1.0})
if "FEDSE_URL" in os.environ:
    for _ in range(3):
        got = post(os.environ["FEDSE_URL"] + "/episodes", {}, os.environ["FEDSE_KEY"])
        one(got["base_url"], got["reward_url"])
elif os.environ["FEDSE_TASK"] == "train-3":
    sys.exit("no such task")
else:
    one(os.environ["OPENAI_BASE_URL"], os.environ["FEDSE_REWARD_URL"])
"""


@pytest.mark.parametrize("per", ["episode", "round"])
def test_a_command_plays_a_round(
    per: str, tmp_path: Path, played_with: Callable[..., list[Trajectory]]
) -> None:
    file = tmp_path / "agent.py"
    file.write_text(COMMAND)
    played = played_with(Letters(), command=[sys.executable, str(file)], per=per)
    assert [episode.outcome for episode in played] == [*["success"] * 3, "broken"]
    told = "exit code 1: no such task" if per == "episode" else "before it asked for this episode"
    assert told in (played[3].error or "")


def test_a_command_that_hangs_or_does_not_exist(
    played_with: Callable[..., list[Trajectory]],
) -> None:
    assert "did not end in 1 s" in (
        played_with(Letters(), command=["sleep", "9"], timeout=1)[0].error or ""
    )
    assert "cannot be started" in (played_with(Letters(), command=["no-such-thing"])[0].error or "")


def test_a_broken_policy_stops_the_round(played_with: Callable[..., list[Trajectory]]) -> None:
    class Broken(Letters):
        def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        played_with(Broken(), command=["sh", "-c", f"{sys.executable} -c '{ASK}'"])


ASK = (
    'import os, urllib.request as u; u.urlopen(u.Request(os.environ["OPENAI_BASE_URL"] + '
    '"/chat/completions", b"{\\"messages\\": [{\\"role\\": \\"user\\", '
    '\\"content\\": \\"a\\"}]}"))'
)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "got neither"),
        ({"play": "a:b", "command": ["x"]}, "got play and command"),
        ({"play": "json:loads", "per": "round"}, "only with a command"),
        ({"command": "node agent.js"}, "a list of words"),
        ({"command": ["x"], "train": 0}, "option train"),
        ({"command": ["x"], "train": ["a"], "test": ["a"]}, "tasks that train does not have"),
        ({"command": ["x"], "train": ["a", "a"]}, "all different"),
        ({"command": ["x"], "per": "day"}, "one of episode, round"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_env("program", options)


def test_a_program_cannot_be_stepped() -> None:
    program = make_env("program", {"command": ["x"], "train": ["b", "a"], "test": 2})
    assert [task.id for task in program.tasks("train")] == ["b", "a"]
    assert len(choose_games(program.tasks("test"), 3, seed=0)) == 3
    with pytest.raises(EnvError, match="owns its loop"):
        program.reset(program.tasks("train")[0], seed=0)
    with pytest.raises(EnvError, match="No module named 'nowhere'"):
        make_env("program", {"play": "nowhere:play"})


def test_answers_that_are_not_ours_are_given_as_the_template_would() -> None:
    needs("transformers")
    from fedse.adapters.base import base_path
    from fedse.agent.loaded import load_base

    base = load_base(base_path("tiny"))
    said = (("at 1 1", "up"), ("at 2 1", "down"))
    past = tuple(ShownAndAnswered(asked(shown), Said(answer)) for shown, answer in said)
    episode = RecordedEpisode(GAMES[0], max_turns=3, opened=0.0)
    question = episode.ask(Conversation("maze", past, asked("at 3 1")), base.encoder)
    context = base.encoder.context(question.dialogue)
    episode.take(question, Reply("left", context, base.encoder.action("left")))
    messages = [{"role": "system", "content": "maze"}]
    for shown, answered in said:
        messages += [user(shown), bot(answered)]
    messages += [user("at 3 1"), bot("left")]
    text = base.tokenizer.apply_chat_template(messages, tokenize=False)
    (turn,) = episode.turns
    assert turn.context_ids + turn.action_ids == tuple(
        base.tokenizer.encode(text, add_special_tokens=False)
    )
    again = Conversation(
        "maze", (*past, ShownAndAnswered(asked("at 3 1"), Said("left"))), asked("at 4 1")
    )
    assert episode.ask(again, base.encoder).kept == episode.turns
