"""A failed episode under a goal it did reach, played again, so that the world's words are right.

The environment only names training tasks that the actions may have solved. Each is tried: its world
is started, the same actions are taken, and if they succeed, the episode with what that world
answered is the lesson. So a relabelled episode is what an agent with that goal would have seen.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fedse.extend.selecting import (
    Env,
    EnvError,
    HindsightEnv,
    OwnRecord,
    Task,
    Trajectory,
    Turn,
    boundary,
    everything,
)


def hindsight(played: Sequence[Trajectory], *, record: OwnRecord) -> tuple[Trajectory, ...]:
    """Successes, and the other episodes under a goal they did reach, where the world can name one.

    Source: hindsight experience replay (arXiv 1707.01495), for language agents AgentHER
    (arXiv 2603.21357).
    """
    with relabeller(record) as relabel:
        lessons = [e if e.success else relabel(e) for e in everything(played)]
    return tuple(lesson for lesson in lessons if lesson is not None)


@contextmanager
def relabeller(record: OwnRecord) -> Iterator[Callable[[Trajectory], Trajectory | None]]:
    """Relabels the client's failed episodes while it is open; none where its world cannot.

    The environment is made when it is first needed, as that may be costly.
    """
    opened: list[tuple[Env, Callable[[Task], bool]]] = []

    def relabel(episode: Trajectory) -> Trajectory | None:
        if not opened:
            made = record.make_env()
            opened.append((made, allowed_tasks(made, record.tasks)))
        env, allowed = opened[0]
        return relabelled(episode, env, allowed) if isinstance(env, HindsightEnv) else None

    try:
        yield relabel
    finally:
        for env, _ in opened:
            with boundary(EnvError, f"{env.name}.close"):
                env.close()


def allowed_tasks(env: Env, own: Sequence[Task]) -> Callable[[Task], bool]:
    """No task of the test split, and no training task that is not in the client's own part."""
    with boundary(EnvError, f"{env.name}.tasks"):
        held_out = {task.id for task in env.tasks("test")}
        others = set(env.tasks("train")) - set(own)
    return lambda task: task.split == "train" and task.id not in held_out and task not in others


def relabelled(
    episode: Trajectory, env: HindsightEnv, allowed: Callable[[Task], bool]
) -> Trajectory | None:
    """The beginning of the episode that solves an allowed task, as a success in that task.

    None for an episode of a task that is not allowed, and where the environment raises: that is no
    reason to stop, there is only nothing to learn.
    """
    if not allowed(episode.task):
        return None
    try:
        with boundary(EnvError, f"{env.name}.reached in task {episode.task.id!r}"):
            tasks = filter(allowed, env.reached(episode))
            again = (play_again(episode, task, env) for task in tasks)
            return next((found for found in again if found is not None), None)
    except EnvError:
        return None


def play_again(episode: Trajectory, task: Task, env: Env) -> Trajectory | None:
    """The episode's actions in the world of `task`, up to their success there; None without one.

    What the agent said stays as it was sampled, token for token. What it was shown is that world's
    answer, so its tokens have to be made anew.
    """
    step = env.reset(task, seed=episode.seed)
    turns: list[Turn] = []
    for turn in episode.turns:
        changed = {"observation": step.observation, "context_ids": ()}
        turns.append(turn.model_copy(update=changed))
        step = env.step(turn.action)
        if step.done:
            break
    if not step.success:
        return None
    solved = {"task": task, "turns": tuple(turns), "outcome": "success", "reward": step.reward}
    return episode.model_copy(update=solved)
