"""`fedse env`: list environments, check one against its contract, play one by hand."""

import json as json_format
import sys
from collections.abc import Sequence
from inspect import signature
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Any

from cyclopts import App, Parameter

from fedse.cli.display import Json
from fedse.config.file import parse_options
from fedse.envs.base import (
    Env,
    ExpertEnv,
    Step,
    acting_in,
    env_class,
    env_names,
    make_env,
    role_prompts_of,
)
from fedse.envs.conformance.check import CheckReport, check_env
from fedse.errors import ConfigError, EnvError, FedSEError, boundary
from fedse.plugins import ENVS, missing_packages
from fedse.suggest import closest
from fedse.types import Split, Task

# As many as a person will read before typing one.
MOST_ACTIONS = 40

app = App(name="env", help_format="plaintext", help_epilogue="")

Name = Annotated[str, Parameter(help="As in `fedse env list`, or module:Class.")]
Options = Annotated[
    list[str],
    Parameter(
        name="--option",
        help="An argument for the environment, as in words=small.",
        show_default=False,
    ),
]


@app.command(name="list")
def list_(*, json: Json = False) -> None:
    """List the environments that can be played here.

    Example: fedse env list
    """
    rows = [_describe(name) for name in env_names()]
    if json:
        print(json_format.dumps(rows))
        return
    for row in rows:
        options = f"needs the options {', '.join(row['options'])}" if "options" in row else ""
        description = (
            row.get("error")
            or options
            or (
                f"{row['train']} training and {row['test']} test tasks, at most {row['max_turns']} "
                f"turns, {'with' if row['expert'] else 'no'} expert"
            )
        )
        print(f"{row['name']:<10}  {description}")
    for package, names in missing_packages(ENVS).items():
        print(f"\n{', '.join(names)}: pip install {package}")


def _describe(name: str) -> dict[str, Any]:
    try:
        with boundary(EnvError, f"environment {name!r}"):
            given = signature(env_class(name)).parameters.values()
        named = [each for each in given if each.kind is each.KEYWORD_ONLY]
        if needed := [each.name for each in named if each.default is each.empty]:
            return {"name": name, "options": needed}
        env = make_env(name)
    except FedSEError as error:
        return {"name": name, "error": str(error)}
    counts = {split: len(env.tasks(split)) for split in ("train", "test")}
    expert = isinstance(env, ExpertEnv)
    return {"name": name, **counts, "max_turns": env.max_turns, "expert": expert}


@app.command
def check(
    name: Name,
    /,
    *,
    option: Options = [],  # noqa: B006  only read
    tasks: Annotated[int, Parameter(help="Number of tasks to try from each split.")] = 20,
    json: Json = False,
) -> int:
    """Check that an environment keeps its contract; exit code 4 if not.

    Example: fedse env check my_package.my_env:MyEnv --option difficulty=2
    """
    report = check_env(name, parse_options(option), tasks=tasks)
    print(report.model_dump_json() if json else _report_text(report))
    return 0 if report.ok else EnvError.exit_code


def _report_text(report: CheckReport) -> str:
    lines, first = [], report.checks[0]
    for check in report.checks if first.ok else [first]:
        word = "skip" if check.skipped else "ok" if check.ok else "FAIL"
        lines += [f"{word:<4}  {check.name:<26}  {check.detail}".rstrip()]
        lines += [f"      do: {check.todo}"] if check.todo else []
    if not first.ok:
        lines += [f"skip  the other {len(report.checks) - 1}, which need an environment to try"]
    failed = len(report.failed)
    verdict = "keeps its contract" if report.ok else f"breaks its contract: {failed} failed"
    return "\n".join([*lines, f"\n{report.env} {verdict}"])


@app.command
def play(
    name: Name,
    /,
    *,
    option: Options = [],  # noqa: B006  only read
    split: Annotated[Split, Parameter(help="Which tasks.")] = "train",
    task: Annotated[str | None, Parameter(help="Id of the task; default: by seed.")] = None,
    seed: Annotated[int, Parameter(help="A different seed gives a different game.")] = 0,
) -> None:
    """Play an environment: type an action, `?` to list some, `!` for the expert's, `q` to quit.

    Example: fedse env play wordle --seed 3
    """
    env = make_env(name, parse_options(option))
    chosen = _task(env.tasks(split), task, seed)
    print(f"{_prompts(env)}\n\n[{name}, task {chosen.id}; ? actions, ! expert, q quit]\n")
    step = env.reset(chosen, seed=seed)
    turns = 0
    print(_shown(env, step))
    while not step.done and turns < env.max_turns:
        action = _read_action(env)
        if action is None:
            print("\nyou left the game")
            return
        step = env.step(action)
        turns += 1
        print(_shown(env, step))
    print(f"\n{_ending(step)} in {turns} turns, reward {step.reward:g}")


def _prompts(env: Env) -> str:
    """The system prompt, or that of each role."""
    roles = role_prompts_of(env)
    return "\n\n".join(f"{role}: {prompt}" for role, prompt in roles.items()) or env.system_prompt


def _shown(env: Env, step: Step) -> str:
    """The observation, and which role has to act on it."""
    role, thread = acting_in(env) if not step.done else ("", 0)
    who = f"{role} {thread + 1}: " if thread else f"{role}: " if role else ""
    return f"{who}{step.observation}"


def _ending(step: Step) -> str:
    return "success" if step.success else "no success"


def _read_action(env: Env) -> str | None:
    """The next action; None when the player leaves or the input ends."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        print(prompt, end="", flush=True)
        line = sys.stdin.readline()
        if not line or line.strip() == "q":
            return None
        word = line.strip()
        if word not in ("?", "!"):
            return word
        if not isinstance(env, ExpertEnv):
            print("this environment lists no actions and has no expert")
        elif word == "!":
            print(f"expert: {env.expert()}")
            return env.expert()
        else:
            print(_actions_text(env.actions()))


def _actions_text(actions: Sequence[str]) -> str:
    more = f", and {len(actions) - MOST_ACTIONS} more" if len(actions) > MOST_ACTIONS else ""
    return fill(", ".join(actions[:MOST_ACTIONS]) + more, get_terminal_size().columns)


def _task(tasks: Sequence[Task], wanted: str | None, seed: int) -> Task:
    if wanted is None:
        return tasks[seed % len(tasks)]
    for task in tasks:
        if task.id == wanted:
            return task
    near = closest(wanted, [task.id for task in tasks])
    raise ConfigError(
        f"there is no task {wanted!r} among {len(tasks)}"
        + (f", did you mean {near!r}?" if near else f"; the first is {tasks[0].id!r}")
    )
