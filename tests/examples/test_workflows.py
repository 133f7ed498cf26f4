"""The three workflows of roles run as their users run them, as programs and as environments."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("openai", "torch", "transformers", "peft", "starlette", "uvicorn")

from fedse.agent.conversations import Conversation, conversations_of
from fedse.agent.policy import Dialogue, ScriptedPolicy
from fedse.config.file import load_config
from fedse.envs.conformance.check import check_env
from fedse.method.rollout import Game, demonstrate, rollout
from fedse.store.run_folder import open_run
from fedse.types import Task, Trajectory

EXAMPLES = Path(__file__).parents[2] / "examples" / "workflows"
NAMES = ("evaluator_optimiser", "orchestrator_workers", "voting")
GAMES = 12


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(EXAMPLES)
    yield
    for name in (*NAMES, "signals", "worlds"):
        module = sys.modules.pop(name, None)
        if client := getattr(module, "HTTP", None):
            client.close()


def world(name: str, *, roles: bool = True) -> Any:
    from worlds import Signals

    return Signals(kind=name.replace("_", "-"), roles=roles)


def known(lessons: Sequence[Trajectory]) -> dict[tuple[object, ...], str]:
    """What the demonstrations answer, by everything that the role that answers has seen."""
    found = {}
    for lesson in lessons:
        for one in conversations_of(lesson):
            for number, turn in enumerate(one.turns):
                found[_seen(one.role, one.turns[:number], turn.observation)] = turn.action
    return found


def _seen(role: str, turns: Sequence[Any], shown: str) -> tuple[object, ...]:
    return role, tuple(turn.observation for turn in turns), shown


def said(lesson: Trajectory) -> list[tuple[str, list[tuple[str, str]]]]:
    """Each conversation of the episode, as texts, whatever came first."""

    def texts(one: Conversation) -> list[tuple[str, str]]:
        return [(turn.observation, turn.action) for turn in one.turns]

    return sorted((one.role, texts(one)) for one in conversations_of(lesson))


@pytest.mark.parametrize("name", NAMES)
def test_program_and_environment_have_the_same_conversations(name: str) -> None:
    """The program, acted by what the demonstrations say, succeeds and is recorded as they are."""
    from fedse_agents import Program

    env = world(name)
    shown = demonstrate([Game(task, 0) for task in env.tasks("train")[:GAMES]], lambda: env)
    assert len(shown) == GAMES, "the expert always succeeds"
    answers = known(shown)

    def answer(dialogue: Dialogue, seed: int) -> str:
        return answers[_seen(dialogue.role, dialogue.turns, dialogue.observation)]

    program = Program(play=f"{name}:north", train=GAMES, test=1, parallel=4)
    play = program.player(None, lambda: None, roles=tuple(env.role_prompts))  # type: ignore[arg-type]
    games = [Game(task, 0) for task in program.tasks("train")]
    played = play(games, lambda: program, ScriptedPolicy(answer), round=1, batch=8, seed=0)
    assert [one.error for one in played] == [None] * GAMES
    assert all(one.success for one in played)
    assert [said(one) for one in played] == [said(one) for one in shown]


@pytest.mark.parametrize("name", NAMES)
def test_the_environment_keeps_the_promises_of_one(name: str) -> None:
    options = {"kind": name.replace("_", "-")}
    for roles in (True, False):
        report = check_env("worlds:Signals", {**options, "roles": roles})
        assert report.ok, [one for one in report.checks if not one.ok]


@pytest.mark.parametrize("name", NAMES)
def test_one_agent_without_roles_does_the_same_work_in_one_conversation(name: str) -> None:
    env = world(name, roles=False)
    (shown,) = demonstrate([Game(env.tasks("train")[0], 0)], lambda: env)
    assert {(turn.role, turn.thread) for turn in shown.turns} == {("", 0)}


def test_what_most_voters_say_is_done() -> None:
    votes = iter(("up up", "up left", "up left"))
    policy = ScriptedPolicy(lambda dialogue, seed: next(votes))
    task = Task(env="signals", id="north/a b", split="train")
    (played,) = rollout([Game(task, 0)], lambda: world("voting"), policy, round=1, batch=1, seed=0)
    assert played.success
    assert [turn.thread for turn in played.turns] == [0, 1, 2]


def test_every_harbour_lacks_flags_that_the_sea_has() -> None:
    from signals import FLAGS, HARBOURS, signals

    assert set("".join(HARBOURS.values())) == set(FLAGS)
    for harbour, own in HARBOURS.items():
        flown = signals(harbour, "train", 2)
        assert {flag for signal in flown for flag in signal.split()} == set(own) < set(FLAGS)
        assert not set(flown) & set(signals(harbour, "test", 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "program"])
def test_the_experiment_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedse.cli.app import start

    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path))
    assert load_config(EXAMPLES / f"{name}.toml").roles.names
    short = ["run.rounds=1", "rollout.episodes=4", "eval.episodes=4", "train.epochs=1"]
    settings = [word for setting in short for word in ("--set", setting)]
    assert start(["run", f"{name}.toml", "--plain", "--name", "mine", *settings]) == 0
    with closing(open_run(tmp_path / "mine")) as run:
        (result,) = run.results()
    assert result.before != result.after
