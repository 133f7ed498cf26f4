"""Does an environment meet its contract? Named checks for built-in and users' environments.

The environment cannot make `check_env` raise: whatever it does becomes a failed check that says
what to do. An unknown name is a ConfigError, since there is nothing to check.
What each check requires is in fedse.envs.conformance.promises.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from typing import Any

from fedse.envs.base import env_class
from fedse.envs.conformance import promises
from fedse.envs.conformance.subject import Broken, Subject, Untried
from fedse.errors import ConfigError
from fedse.types import Record


class Check(Record):
    """One promise of the contract and whether it was kept."""

    name: str
    ok: bool
    detail: str
    todo: str = ""
    """What to do about it; empty if ok."""
    skipped: bool = False
    """It could not be tested here, which counts as ok."""


class CheckReport(Record):
    """All checks of one environment, in the order in which they were run."""

    env: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the failed checks."""
        return tuple(check.name for check in self.checks if not check.ok)


# Name, promise, what to do when it is broken.
CHECKS: Sequence[tuple[str, Callable[[Subject], str], str]] = (
    (
        "interface",
        promises.has_interface,
        "give the class name, system_prompt, max_turns, tasks, reset, step and close as in "
        "fedse/envs/base.py, and accept the options as keyword arguments",
    ),
    (
        "plain options",
        promises.has_plain_options,
        "use only text, numbers, booleans, lists and tables as options; build objects from them "
        "inside the environment",
    ),
    (
        "stable tasks",
        promises.has_stable_tasks,
        "return the same non-empty list of Task(env=self.name, id=..., split=split) from every "
        "call and instance: no clock, no shuffle without a fixed seed, no directory order",
    ),
    ("unique ids", promises.has_unique_ids, "give every task of a split its own id"),
    (
        "disjoint splits",
        promises.has_disjoint_splits,
        "move each task to one split only; a test task seen in training measures nothing",
    ),
    (
        "playable",
        promises.is_playable,
        "let reset open an episode that is not done, and let step answer every action with a "
        "fedse.envs.base.Step until done or for max_turns steps",
    ),
    (
        "answers",
        promises.answers_well,
        "return text as observation and plain bools as done and success in every Step",
    ),
    ("finite reward", promises.rewards_finitely, "return a finite number as reward, 0 if unsure"),
    (
        "success only with done",
        promises.succeeds_only_when_done,
        "set done=True in the same Step that has success=True",
    ),
    (
        "repeatable",
        promises.repeats_itself,
        "draw all randomness from random.Random(seed_of(task.id, seed)) made in reset; use no "
        "clock, no global random, no outside state",
    ),
    (
        "same in another process",
        promises.repeats_in_another_process,
        "do not use hash(), id() or the order of a set; sort before choosing, and keep the class "
        "importable from a fresh interpreter",
    ),
    (
        "no leak between episodes",
        promises.forgets_between_episodes,
        "in reset, set every attribute that step changes",
    ),
    (
        "no leak between instances",
        promises.shares_nothing_between_instances,
        "keep state on self: no class attributes, module globals or global random generator; a "
        "rollout plays many instances in turns",
    ),
    (
        "any text",
        promises.bears_any_text,
        "answer text that is not a valid action with an observation that says so; never raise",
    ),
    (
        "refuses steps after done",
        promises.refuses_steps_after_done,
        "raise fedse.errors.EnvError from step when no episode is open",
    ),
    (
        "free asking",
        promises.can_be_asked_freely,
        "let expert() and actions() change nothing; give the expert its own random generator",
    ),
    (
        "good expert",
        promises.has_a_good_expert,
        "raise max_turns, leave out tasks that cannot be completed in time, or correct expert()",
    ),
    (
        "quiet",
        promises.is_quiet,
        "remove the print, or send it to logging: stdout belongs to the program",
    ),
)


def check_env(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    tasks: int = 20,
    seed: int = 0,
    actions: Sequence[str] = (),
    hash_seeds: Sequence[int] = (1, 2),
    timeout: float = 120.0,
) -> CheckReport:
    """The results of all checks, on up to `tasks` tasks of each split.

    `actions` are the texts to play if the environment has no actions() of its own. For each of
    `hash_seeds`, one child process plays the same episodes within `timeout` seconds.
    """
    subject = Subject(name, options or {}, tasks, seed, actions, hash_seeds, timeout)
    with redirect_stdout(subject.printed):
        _require_steppable(name)
        first, *others = CHECKS
        checks = [_try_promise(subject, *first)]
        for check in others:
            checks.append(_try_promise(subject, *check) if checks[0].ok else _skip(check[0]))
    return CheckReport(env=name, checks=tuple(checks))


def _require_steppable(name: str) -> None:
    """There is something to check; the first check reports import and construction errors."""
    try:
        factory = env_class(name)
    except ConfigError:
        raise
    except Exception:
        return
    if getattr(factory, "owns_loop", False):
        raise ConfigError(
            f"{name} is not stepped by fedse: the agent program plays by itself, so there is no "
            "reset or step to check",
            hint="check it by playing one short round: fedse run CONFIG --set run.rounds=1 "
            "--set rollout.episodes=4 --set eval.episodes=4",
        )


def _try_promise(
    subject: Subject, name: str, promise: Callable[[Subject], str], todo: str
) -> Check:
    try:
        return Check(name=name, ok=True, detail=promise(subject))
    except Untried as reason:
        return Check(name=name, ok=True, detail=str(reason), skipped=True)
    except Broken as reason:
        return Check(name=name, ok=False, detail=str(reason), todo=todo)
    except Exception as error:
        return Check(name=name, ok=False, detail=f"{type(error).__name__}: {error}", todo=todo)
    finally:
        with suppress(Exception):
            subject.close()


def _skip(name: str) -> Check:
    return Check(name=name, ok=True, detail="the environment cannot be made", skipped=True)
