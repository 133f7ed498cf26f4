"""The benchmark compares equal work, and its world is the same every time."""

from pathlib import Path

from tests.needs import needs

needs("torch", "uvicorn", "httpx", "psutil")

import json

from fedse.bench.talk import Talk
from fedse.cli.app import start
from tests.engine.conftest import small_server

EXPERIMENT = """
[engine]
type = "vllm"
url = "{url}"

[[clients]]
name = "a"
env = "maze"
"""


def test_the_world_is_the_same_every_time():
    task = Talk().tasks("train")[3]
    first, second = (Talk().reset(task, seed=5) for _ in range(2))
    assert first == second != Talk().reset(task, seed=6)


def test_both_sides_generate_the_same_tokens(tmp_path: Path, capsys):
    with small_server(tmp_path) as url:
        file = tmp_path / "my.toml"
        file.write_text(EXPERIMENT.format(url=url))
        small = ["--episodes", "3", "--turns", "2", "--new-tokens", "4", "--repeats", "1"]
        assert start(["bench", "rollout", str(file), *small, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["fedse"]["generated"] == result["bare"]["generated"] == 3 * 2 * 4
    assert result["fedse"]["read"] == result["bare"]["read"]
    assert result["ratio"] > 0
