"""What an environment promises, one function per promise, tested on one subject.

Each function returns what it saw, raises Broken with what went wrong, or Untried when it cannot
decide. Any other exception comes from the environment and counts as broken. What is required
beyond the types of fedse.Env:

- `reset` opens an episode that can be played until `done` or for `max_turns` steps; the rollout
  stops there, whether or not the environment reports done.
- `step` after `done` raises EnvError.
- Options are plain TOML values, so that a site can make the environment in another process.
"""

import json
import math
import re
from collections.abc import Sequence

from fedse.config.roles import ROLE_NAME
from fedse.envs.base import ExpertEnv, RolesEnv, role_prompts_of
from fedse.envs.conformance.replay import Recording, replay
from fedse.envs.conformance.subject import NO_ACTIONS, SPLITS, Broken, Subject, Untried
from fedse.errors import EnvError
from fedse.types import Task

EXPERT_SHARE = 0.95


def has_interface(subject: Subject) -> str:
    env = subject.fresh()
    if not isinstance(env.name, str) or not env.name or not isinstance(env.system_prompt, str):
        raise Broken(f"name and system_prompt must be text, got name {env.name!r}")
    if type(env.max_turns) is not int or env.max_turns < 1:
        raise Broken(f"max_turns must be a whole number of at least 1, got {env.max_turns!r}")
    if getattr(env, "role_prompts", None) and not isinstance(env, RolesEnv):
        raise Broken("role_prompts needs acting(), which says whose turn it is")
    prompts = role_prompts_of(env)
    odd = [role for role in prompts if not isinstance(role, str) or not re.match(ROLE_NAME, role)]
    if odd or not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise Broken(
            f"role_prompts must be text by role, named as {ROLE_NAME}, got {prompts!r:.200}"
        )
    subject.close()
    roles = f", roles {', '.join(sorted(prompts))}" if prompts else ""
    return ("with an expert" if isinstance(env, ExpertEnv) else "without an expert") + roles


def has_plain_options(subject: Subject) -> str:
    try:
        plain = json.loads(json.dumps(dict(subject.options), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise Broken(f"the options {sorted(subject.options)} cannot be written: {error}") from None
    return f"{len(plain)} options"


def has_stable_tasks(subject: Subject) -> str:
    env = subject.fresh()
    for split in SPLITS:
        first, again, elsewhere = (list(e.tasks(split)) for e in (env, env, subject.fresh()))
        if not first == again == elsewhere:
            raise Broken(f"tasks({split!r}) differs between two calls or two instances")
        if not first:
            raise Broken(f"tasks({split!r}) is empty")
        for task in first:
            if not isinstance(task, Task) or (task.env, task.split) != (env.name, split):
                raise Broken(f"expected {split} Tasks of {env.name!r}, got {task!r}")
    return ", ".join(f"{len(env.tasks(split))} {split}" for split in SPLITS)


def has_unique_ids(subject: Subject) -> str:
    for split in SPLITS:
        seen = set[str]()
        for task in subject.fresh().tasks(split):
            if task.id in seen:
                raise Broken(f"id {task.id!r} occurs more than once in {split}")
            seen.add(task.id)
    return "every id once"


def has_disjoint_splits(subject: Subject) -> str:
    env = subject.fresh()
    shared = {t.id for t in env.tasks("train")} & {t.id for t in env.tasks("test")}
    if shared:
        raise Broken(f"{len(shared)} ids are in both splits, one is {min(shared)!r}")
    return "no id in both"


def is_playable(subject: Subject) -> str:
    played = subject.record()
    for recording, steps in played:
        if steps[0].done:
            raise Broken(f"reset of task {recording.task.id!r} already says done")
    ended = sum(steps[-1].done for _, steps in played)
    return f"{ended} of {len(played)} episodes ended within max_turns"


def answers_well(subject: Subject) -> str:
    for recording, steps in subject.recorded:
        for step in steps:
            where = f"task {recording.task.id!r} answered {step!r:.200}"
            if not isinstance(step.observation, str):
                raise Broken(f"{where}, expected a text observation")
            if type(step.done) is not bool or type(step.success) is not bool:
                raise Broken(f"{where}, expected done and success to be bool")
    return f"{sum(len(steps) for _, steps in subject.recorded)} answers"


def rewards_finitely(subject: Subject) -> str:
    rewards = [step.reward for _, steps in subject.recorded for step in steps]
    odd = [reward for reward in rewards if not math.isfinite(reward)]
    if odd:
        raise Broken(f"{len(odd)} of {len(rewards)} rewards are not finite, one is {odd[0]!r}")
    return f"{min(rewards):g} to {max(rewards):g}"


def succeeds_only_when_done(subject: Subject) -> str:
    for recording, steps in subject.recorded:
        for turn, step in enumerate(steps):
            if step.success and not step.done:
                raise Broken(f"task {recording.task.id!r} says success but not done, turn {turn}")
    return f"{sum(steps[-1].success for _, steps in subject.recorded)} successes seen"


def repeats_itself(subject: Subject) -> str:
    for recording, before in zip(subject.recordings, subject.replayed, strict=True):
        _require_same(recording, before, replay(subject.fresh(), recording), "played again")
        subject.close()
    return f"{len(subject.replayed)} episodes"


def repeats_in_another_process(subject: Subject) -> str:
    env = subject.fresh()
    ours = [task for split in SPLITS for task in env.tasks(split)]
    for hash_seed, child in zip(subject.hash_seeds, subject.children, strict=True):
        how = f"with PYTHONHASHSEED={hash_seed}"
        if list(child.tasks) != ours:
            raise Broken(f"the task lists differ in a child process {how}")
        for recording, before, there in zip(
            subject.recordings, subject.replayed, child.episodes, strict=True
        ):
            _require_same(recording, before, there, f"played in a child process {how}")
    return f"{len(subject.children)} child processes"


def forgets_between_episodes(subject: Subject) -> str:
    first = subject.recordings[0]
    env = subject.fresh()
    for recording, before in zip(subject.recordings, subject.replayed, strict=True):
        _require_same(recording, before, replay(env, recording), "played after other episodes")
        again = replay(env, first)
        _require_same(first, subject.replayed[0], again, f"after task {recording.task.id!r}")
    return f"{2 * len(subject.recordings)} episodes in one instance"


def shares_nothing_between_instances(subject: Subject) -> str:
    recordings = subject.recordings[:: max(1, len(subject.recordings) // 8)]
    envs = [subject.fresh() for _ in recordings]
    seen = [[repr(e.reset(r.task, seed=r.seed))] for e, r in zip(envs, recordings, strict=True)]
    for turn in range(max(len(recording.actions) for recording in recordings)):
        for env, recording, answers in zip(envs, recordings, seen, strict=True):
            if turn < len(recording.actions):
                answers.append(repr(env.step(recording.actions[turn])))
    alone = dict(zip(subject.recordings, subject.replayed, strict=True))
    for recording, answers in zip(recordings, seen, strict=True):
        _require_same(recording, alone[recording], answers, "played beside other instances")
    return f"{len(envs)} instances in turns"


def bears_any_text(subject: Subject) -> str:
    tasks = subject.sample("train")
    for start in range(len(NO_ACTIONS)):
        env = subject.fresh()
        step = env.reset(tasks[start % len(tasks)], seed=subject.seed)
        for turn in range(env.max_turns):
            if step.done:
                break
            text = NO_ACTIONS[(start + turn) % len(NO_ACTIONS)]
            try:
                step = env.step(text)
            except Exception as error:
                raise Broken(
                    f"step({text[:40]!r}) raised {type(error).__name__}: {error}"
                ) from None
    return f"{len(NO_ACTIONS)} texts that are not actions"


def refuses_steps_after_done(subject: Subject) -> str:
    ended = [recording for recording, steps in subject.recorded if steps[-1].done]
    if not ended:
        raise Untried("no sampled episode ended by itself")
    for recording in ended:
        env = subject.fresh()
        replay(env, recording)
        for _ in range(2):
            try:
                step = env.step(recording.actions[-1])
            except EnvError:
                continue
            except Exception as error:
                raise Broken(f"expected EnvError, got {type(error).__name__}: {error}") from None
            raise Broken(f"task {recording.task.id!r} answered after done with {step!r:.100}")
    return f"{len(ended)} ended episodes"


def can_be_asked_freely(subject: Subject) -> str:
    if not isinstance(subject.fresh(), ExpertEnv):
        raise Untried("no expert")
    for (recording, steps), alone in zip(subject.recorded, subject.replayed, strict=True):
        _require_same(recording, alone, [repr(step) for step in steps], "with calls to the expert")
    return f"{len(subject.recorded)} episodes"


def has_a_good_expert(subject: Subject) -> str:
    tasks, solved = subject.sample("train"), 0
    for task in tasks:
        env = subject.fresh()
        if not isinstance(env, ExpertEnv):
            raise Untried("no expert")
        step = env.reset(task, seed=subject.seed)
        for _ in range(env.max_turns):
            step = step if step.done else env.step(env.expert())
        solved += step.success
    if solved < EXPERT_SHARE * len(tasks):
        raise Broken(
            f"{solved} of {len(tasks)} training tasks succeeded, expected {EXPERT_SHARE:.0%}"
        )
    return f"{solved} of {len(tasks)} training tasks succeeded"


def is_quiet(subject: Subject) -> str:
    printed = subject.printed.getvalue() + "".join(_printed_by_children(subject))
    if printed:
        raise Broken(f"it printed {printed[:80]!r}")
    return "nothing on stdout"


def _printed_by_children(subject: Subject) -> list[str]:
    try:
        return [child.printed for child in subject.children]
    except Exception:
        return []  # the check in another process names the cause


def _require_same(
    recording: Recording, expected: Sequence[str], got: Sequence[str], how: str
) -> None:
    if list(expected) == list(got):
        return
    pairs = zip([*expected, "nothing"], [*got, "nothing"], strict=False)
    turn, (one, other) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    raise Broken(
        f"task {recording.task.id!r}, seed {recording.seed}, turn {turn}: expected {one:.120}, "
        f"got {other:.120} {how}"
    )
