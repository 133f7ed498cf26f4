"""What every bridge needs: functions named in TOML, seeds as tasks, and the same refusals."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from fedse import EnvError, Task
from fedse.envs import Split, require_positive, wrong_option

# Fixed, so that a test task keeps its id when the number of training tasks changes.
FIRST_TEST_SEED = 1_000_000

NO_ACTION = "That is no valid action; nothing happened."


def named_function(bridge: str, option: str, given: object) -> Callable[..., Any]:
    """The function itself, or the one that `module:function` names."""
    if callable(given):
        return given
    module, _, attribute = given.partition(":") if isinstance(given, str) else ("", "", "")
    if not module or not attribute.isidentifier():
        raise wrong_option(bridge, option, given, "a function or its name as 'module:function'")
    try:
        value = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        expected = f"importable from here ({type(error).__name__}: {error})"
        raise wrong_option(bridge, option, given, expected) from error
    if not callable(value):
        raise wrong_option(bridge, option, given, f"a function, found {type(value).__name__}")
    function: Callable[..., Any] = value
    return function


def seeds_as_tasks(bridge: str, train: int, test: int) -> Mapping[Task, int]:
    """`train` and `test` tasks of environment `bridge`, each with its own seed of the world."""
    require_positive(bridge, "train_tasks", train)
    require_positive(bridge, "test_tasks", test)
    if train > FIRST_TEST_SEED:
        raise wrong_option(bridge, "train_tasks", train, f"at most {FIRST_TEST_SEED}")
    seeds: dict[Split, range] = {
        "train": range(train),
        "test": range(FIRST_TEST_SEED, FIRST_TEST_SEED + test),
    }
    return {
        Task(env=bridge, id=f"seed-{seed}", split=split): seed
        for split, chosen in seeds.items()
        for seed in chosen
    }


def of_split(tasks: Mapping[Task, Any], split: Split) -> tuple[Task, ...]:
    return tuple(task for task in tasks if task.split == split)


def unknown_task(bridge: str, task: Task) -> EnvError:
    return EnvError(
        f"{bridge} has no {task.split} task {task.id!r} of {task.env!r} under these options",
        hint="take tasks from tasks(split) of an environment with the same options",
    )


def no_episode(bridge: str) -> EnvError:
    return EnvError(
        f"{bridge}: no episode is open; expected reset() first, got an action before it or after "
        "done",
        hint="call reset(task, seed=...) before step()",
    )


def success_rule(bridge: str, rule: object) -> Callable[..., bool]:
    """A number r means "the last reward is above r"; a function gets (observation, reward)."""
    if isinstance(rule, bool):
        raise wrong_option(bridge, "success", rule, "a number or a function")
    if isinstance(rule, int | float):
        threshold = rule
        return lambda observation, reward: reward > threshold
    return named_function(bridge, "success", rule)
