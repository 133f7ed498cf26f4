"""Data sets of reasoning-gym: one question, one answer, scored by the data set.

Where the package is not installed, a stand-in has its one data set.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

from fedse.envs.base import make_env
from fedse.envs.conformance.check import check_env
from fedse.errors import ConfigError
from tests.envs.kept import assert_all_kept

NAME = "reasoning-gym"
SUMS = {"dataset": "chain_sum", "dataset_options": {"max_terms": 3}, "test_tasks": 5}


@pytest.fixture(autouse=True)
def reasoning_gym(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("reasoning_gym") is None:
        monkeypatch.syspath_prepend(Path(__file__).parent / "stand_in")


def test_keeps_every_promise() -> None:
    assert_all_kept(check_env(NAME, SUMS, tasks=5, hash_seeds=(1,)))


def test_an_answer_is_scored_by_the_data_set() -> None:
    env = make_env(NAME, SUMS)
    task = env.tasks("train")[3]
    question = env.reset(task, seed=0).observation
    total = eval(question.partition(":")[2].strip(" ="))
    assert "+" in question or "-" in question
    right = env.step(f"I add.\nAnswer: 0\nAnswer: {total}")
    assert (right.reward, right.done, right.success) == (1.0, True, True)
    env.reset(task, seed=1)
    wrong = env.step(str(total + 1))
    assert (wrong.reward, wrong.done, wrong.success) == (0.0, True, False)


@pytest.mark.parametrize("options", [{"dataset": "nope"}, SUMS | {"dataset_options": {"foo": 1}}])
def test_wrong_data_sets_are_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="option dataset must be valid"):
        make_env(NAME, options)
