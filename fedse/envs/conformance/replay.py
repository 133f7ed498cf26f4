"""Replay recorded actions, here or in a child process; equal environments give equal episodes.

`python -m fedse.envs.conformance.replay` reads a `ReplayRequest` as JSON on
stdin and writes a `Replayed` as JSON on stdout, with what the environment itself printed in it.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from fedse.envs.base import Env, make_env
from fedse.errors import EnvError
from fedse.types import Record, Task


class Recording(Record):
    """A task, the world's seed and the agent's actions."""

    task: Task
    seed: int
    actions: tuple[str, ...]


class ReplayRequest(Record):
    env: str
    options: dict[str, Any]
    recordings: tuple[Recording, ...]


class Replayed(Record):
    tasks: tuple[Task, ...]
    """Both task lists, train first."""
    episodes: tuple[tuple[str, ...], ...]
    printed: str
    """What the environment wrote to stdout, cut after 200 characters."""


def replay(env: Env, recording: Recording) -> tuple[str, ...]:
    """Every answer of the environment as text, that of reset first; stops at done."""
    answers = [repr(env.reset(recording.task, seed=recording.seed))]
    for action in recording.actions:
        step = env.step(action)
        answers.append(repr(step))
        if step.done:
            break
    return tuple(answers)


def replay_in_child(request: ReplayRequest, *, hash_seed: int, timeout: float) -> Replayed:
    """The answer of a fresh interpreter with this PYTHONHASHSEED and the same import path."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    done = subprocess.run(
        # -P: otherwise the current folder would come first, and a file there could shadow a module.
        [sys.executable, "-P", "-m", "fedse.envs.conformance.replay"],
        input=request.model_dump_json(),
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it wrote nothing to stderr"])[-1]
        raise EnvError(
            f"environment {request.env!r} in a child process: exit code {done.returncode}: {last}",
            hint="make it importable and playable from a fresh interpreter",
        )
    return Replayed.model_validate_json(done.stdout)


def answer(request: ReplayRequest) -> Replayed:
    """All recordings played one after the other in one instance, with stdout set aside."""
    with tempfile.TemporaryFile() as aside:
        sys.stdout.flush()
        # The descriptor, not sys.stdout: C code prints too.
        stdout = os.dup(1)
        os.dup2(aside.fileno(), 1)
        try:
            tasks, episodes = _play(request.env, request.options, request.recordings)
        finally:
            sys.stdout.flush()
            os.dup2(stdout, 1)
            os.close(stdout)
        aside.seek(0)
        printed = aside.read().decode("utf-8", "replace")[:200]
    return Replayed(tasks=tasks, episodes=episodes, printed=printed)


def _play(
    name: str, options: Mapping[str, Any], recordings: Sequence[Recording]
) -> tuple[tuple[Task, ...], tuple[tuple[str, ...], ...]]:
    env = make_env(name, options)
    tasks = (*env.tasks("train"), *env.tasks("test"))
    episodes = tuple(replay(env, recording) for recording in recordings)
    env.close()
    return tasks, episodes


if __name__ == "__main__":
    request = ReplayRequest.model_validate_json(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer(request).model_dump_json().encode())
