"""The benchmark compares equal work, and its world is the same every time."""

from pathlib import Path

from tests.needs import needs

needs("torch", "uvicorn", "httpx", "psutil")

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fedse.adapters.base import base_path
from fedse.agent.loaded import load_base
from fedse.cli.app import start
from fedse.types import Task, Trajectory, Turn
from research.bench.__main__ import app
from research.bench.generate import generate_all, kept, re_encoded, turns_of
from research.bench.pace import RolloutBench, RolloutPace, Took, TurnRequest, pace_of, requests_of
from research.bench.talk import Talk
from tests.engine.conftest import small_server

EXPERIMENT = """
[engine]
{engine}

[[clients]]
name = "a"
env = "maze"
"""
SERVED = 'type = "vllm"\nurl = "{url}"'
SMALL = ["--episodes", "3", "--turns", "2", "--new-tokens", "4", "--repeats", "1"]


def written(folder: Path, engine: str, more: str = "") -> str:
    file = folder / "my.toml"
    file.write_text(EXPERIMENT.format(engine=engine) + more)
    return str(file)


def episode(*turns: tuple[list[int], list[int]]) -> Trajectory:
    """Of (given, said) pairs."""
    said = [Turn(observation="", action="", context_ids=c, action_ids=a) for c, a in turns]
    task = Task(env="talk", id="0", split="train")
    return Trajectory(
        task=task, seed=0, turns=said, outcome="success", reward=1.0, policy="x", round=1
    )


LONG, SHORT = episode(([1, 2], [3]), ([4], [5]), ([6], [7])), episode(([8], [9]))


def test_the_world_is_the_same_every_time():
    task = Talk().tasks("train")[3]
    first, second = (Talk().reset(task, seed=5) for _ in range(2))
    assert first == second != Talk().reset(task, seed=6)


def test_a_prompt_is_the_whole_episode_so_far():
    assert requests_of(LONG) == [([1, 2], 1), ([1, 2, 3, 4], 1), ([1, 2, 3, 4, 5, 6], 1)]
    assert pace_of([LONG, SHORT], Took(2.0, 1.0)) == RolloutPace(4, 2 + 4 + 6 + 1, 2.0, 1.0)


def test_a_turn_has_the_requests_of_those_who_got_so_far():
    assert [[r.prompt[-1] for r in turn] for turn in turns_of([SHORT, LONG])] == [[8, 2], [4], [6]]


def test_a_ratio_is_of_tokens_per_second():
    ours, half = RolloutPace(10, 0, 2.0, 0.0), RolloutPace(10, 0, 1.0, 0.0)
    assert RolloutBench([], ours, {"bare": half, "generate": ours}).ratios == {
        "bare": 0.5,
        "generate": 1.0,
    }


def test_generate_draws_exactly_as_many_tokens_and_leaves_torch_alone():
    model = load_base(base_path("tiny")).model
    before = torch.random.get_rng_state()
    turns = [[TurnRequest([1, 2, 3, 4], 5), TurnRequest([1, 2], 5)], [TurnRequest([7], 2)]]
    drawn = generate_all(model, turns, re_encoded, seed=0)
    assert [list(turn.shape) for turn in drawn] == [[2, 5], [1, 2]]
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_kept_cache_draws_what_the_whole_prompts_would():
    """Of the likeliest tokens, where the second turn of each episode goes on from its own first."""
    model = load_base(base_path("tiny")).model
    likeliest = SimpleNamespace(config=model.config, device=model.device, generate=greedy(model))
    first = [TurnRequest([11, 12, 13, 14, 15], 4), TurnRequest([21, 22], 4)]
    more = [[31], [32, 33, 34]]

    def turns(said: list[list[int]]) -> list[list[TurnRequest]]:
        prompts = [r.prompt + s + m for r, s, m in zip(first, said, more, strict=True)]
        return [first, [TurnRequest(prompt, 4) for prompt in prompts]]

    drawn = generate_all(likeliest, turns([[0] * 4] * 2), kept, seed=0)
    whole = generate_all(likeliest, turns(drawn[0].tolist()), re_encoded, seed=0)
    assert [turn.tolist() for turn in drawn] == [turn.tolist() for turn in whole]


def greedy(model: Any) -> Any:
    def generate(**given: Any) -> Any:
        drawing = ("do_sample", "temperature", "top_k", "top_p")
        return model.generate(**{k: v for k, v in given.items() if k not in drawing})

    return generate


@pytest.mark.slow
def test_all_sides_generate_the_same_tokens(tmp_path: Path, capsys):
    with small_server(tmp_path) as url:
        file = written(tmp_path, SERVED.format(url=url))
        assert start(["rollout", file, *SMALL, "--json"], app) == 0
        (plain,) = json.loads(capsys.readouterr().out)
        assert start(["rollout", file, *SMALL, "--generate", "--json"], app) == 0
        (result,) = json.loads(capsys.readouterr().out)
    assert list(plain) == ["fedse", "bare", "ratios"]
    assert list(result) == ["fedse", "bare", "generate", "re-encoded", "ratios"]
    for name in ("fedse", "bare", "generate", "re-encoded"):
        assert result[name]["generated"] == 3 * 2 * 4
        assert result[name]["read"] == result["fedse"]["read"]
    for name in ("bare", "generate", "re-encoded"):
        expected = result[name]["seconds"] / result["fedse"]["seconds"]
        assert result["ratios"][name] == pytest.approx(expected)


def test_without_a_server_only_generate_is_beside_it(tmp_path: Path, capsys):
    file = written(tmp_path, 'type = "in-process"')
    assert start(["rollout", file, *SMALL, "--json"], app) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert list(result) == ["fedse", "generate", "re-encoded", "ratios"]
    expected = result["generate"]["cpu_seconds"] / result["fedse"]["cpu_seconds"]
    assert result["ratios"]["generate"] == pytest.approx(expected)
    assert result["fedse"]["generated"] == result["generate"]["generated"] == 3 * 2 * 4
    assert start(["rollout", file, *SMALL], app) == 0
    assert "fedse / generate" in capsys.readouterr().out


def test_weights_of_four_bits_are_refused_before_anything_starts(tmp_path: Path, capsys):
    engine = 'type = "vllm"\nurl = "http://127.0.0.1:9"'
    file = written(tmp_path, engine, '[trainer]\nprecision = "4bit"\n')
    assert start(["rollout", file, "--generate"], app) != 0
    told = capsys.readouterr().err
    assert "'4bit'" in told
    assert 'precision = "bfloat16"' in told
