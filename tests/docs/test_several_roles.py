"""The guide on several roles: its programs play, its environment keeps its promises, and its
settings are valid."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("openai", "starlette", "uvicorn", "jsonschema", "transformers")

from fedse.agent.policy import Dialogue, ScriptedPolicy
from fedse.config.file import parse_config
from fedse.config.keys import children
from fedse.config.schema import ClientSection
from fedse.envs.base import RolesEnv
from fedse.envs.conformance.check import check_env
from fedse.method.rollout import Game
from fedse.types import Trajectory

GUIDE = (Path(__file__).parents[2] / "docs/how-to/several-roles.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE, flags=re.M | re.S)
CLIENT = '\n[[clients]]\nname = "a"\nenv = "maze"\n'
PROGRAM, ENVIRONMENT = (text for kind, text in BLOCKS if kind == "python")


@pytest.fixture
def beside_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roles_program.py").write_text(PROGRAM)
    (tmp_path / "roles_world.py").write_text(ENVIRONMENT)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)


def played(answer: dict[str, list[str]]) -> Trajectory:
    from fedse_agents import Program

    def say(dialogue: Dialogue, seed: int) -> str:
        return answer[dialogue.role][len(dialogue.turns)]

    program = Program(play="roles_program:play", train=1, test=1)
    play = program.player(None, lambda: None, roles=("writer", "critic"))  # type: ignore[arg-type]
    games = [Game(program.tasks("train")[0], 0)]
    (one,) = play(games, lambda: program, ScriptedPolicy(say), round=1, batch=1, seed=0)
    return one


@pytest.mark.usefixtures("beside_the_guide")
def test_the_program_asks_by_the_models_name() -> None:
    mended = played({"writer": ["up", "left"], "critic": ["no"]})
    assert (mended.error, mended.outcome) == (None, "success")
    assert [turn.role for turn in mended.turns] == ["writer", "critic", "writer"]
    assert not played({"writer": ["up"], "critic": ["yes"]}).success


@pytest.mark.usefixtures("beside_the_guide")
def test_the_environment_keeps_its_promises() -> None:
    from roles_world import Ways  # type: ignore[import-not-found]

    assert isinstance(Ways(), RolesEnv)
    assert check_env("roles_world:Ways").ok


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "toml"])
def test_every_block_is_an_experiment_or_part_of_one(text: str) -> None:
    assert parse_config(text if "[[clients]]" in text else text + CLIENT, "guide").roles.names


def test_the_settings_that_it_names_exist() -> None:
    table = GUIDE.partition("| setting | effect |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `([a-z.]+) =", table, flags=re.M)
    known: dict[str, Any] = dict.fromkeys(children("roles"))
    fields = {f"clients.{name}" for name in ClientSection.model_fields}
    assert len(named) >= 6
    assert set(named) <= {*known, *fields}
