"""Play many tasks in lock-step: all open episodes advance through one batched policy call a turn.

A broken episode is data: it ends as `broken` with its cause and is never learned from.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import ceil
from random import Random
from typing import NamedTuple, Protocol

from fedse.agent.policy import Beat, Policy, Reply, no_beat
from fedse.envs.base import Env, EnvFactory, ExpertEnv, Step
from fedse.errors import EnvError, boundary
from fedse.method.open_episode import OpenEpisode
from fedse.method.progress import GamesProgress, untold
from fedse.seeds import seed_of
from fedse.types import Task, Trajectory


class Game(NamedTuple):
    """One episode to be played: a task and the randomness the world may use in it."""

    task: Task
    seed: int
    record: str = ""
    """Under which name it is on record; empty = the task's split."""


class Chunk(NamedTuple):
    """Games that advance together; no other chunk of the rollout has any influence on them."""

    start: int
    """Place of its first game in the rollout."""
    games: tuple[Game, ...]
    policy: str
    round: int
    max_turns: int | None
    seed: int


class Keep(Protocol):
    """Where the trajectories of a chunk outlive the process that played it."""

    def stored(self, chunk: Chunk, /) -> list[Trajectory] | None:
        """Those of an earlier attempt; None = it has to be played."""
        ...

    def store(self, chunk: Chunk, played: list[Trajectory], /) -> None:
        """From here on they count as stored, unless one is broken."""
        ...


class KeepNothing:
    """Every chunk is played."""

    def stored(self, chunk: Chunk) -> list[Trajectory] | None:
        return None

    def store(self, chunk: Chunk, played: list[Trajectory]) -> None:
        pass


MOST_BROKEN = 0.5
"""Share of broken episodes above which a client's round stops."""
KEEP_NOTHING = KeepNothing()


def choose_games(
    tasks: Sequence[Task],
    count: int,
    *,
    seed: int,
    record: str = "",
    group: int = 1,
    apart: bool = False,
) -> list[Game]:
    """`count` games over `tasks`: a shuffled pass over all of them, then another, as needed.

    Each chosen task is played `group` times in a row, from the same beginning. If tasks are drawn
    `apart`, no other task decides about a task's games: without one, all other games stay, and
    others take the places of its own.
    """
    if count and not tasks:
        raise EnvError(
            f"there is no task to play {count} games of",
            hint="give the environment tasks of this split, or play none: eval.episodes = 0",
        )
    draw = _ranked if apart else _shuffled
    passes = ceil(count / (group * len(tasks))) if tasks else 0
    games = [game._replace(record=record) for game in draw(tasks, passes, seed)]
    return [game for game in games for _ in range(group)][:count]


def _shuffled(tasks: Sequence[Task], passes: int, seed: int) -> Iterator[Game]:
    random = Random(seed)
    chosen = [task for _ in range(passes) for task in random.sample(tasks, len(tasks))]
    yield from (Game(task, seed_of(seed, task.id, i)) for i, task in enumerate(chosen))


def _ranked(tasks: Sequence[Task], passes: int, seed: int) -> Iterator[Game]:
    """Every task has a number of its own in every pass, which is its rank and its randomness."""
    for number in range(passes):
        games = [Game(task, seed_of(seed, "apart", task.id, number)) for task in tasks]
        yield from sorted(games, key=lambda game: game.seed)


def rollout(
    games: Sequence[Game],
    make_env: EnvFactory,
    policy: Policy,
    *,
    round: int,
    batch: int,
    max_turns: int | None = None,
    seed: int,
    progress: GamesProgress = untold,
    keep: Keep = KEEP_NOTHING,
    beat: Beat = no_beat,
) -> list[Trajectory]:
    """One trajectory per game, in the order of `games`; each chunk is stored in `keep`.

    `beat` is called with every answer of a world, `progress` with every turn of a chunk.
    """
    played: list[Trajectory] = []
    for start in range(0, len(games), batch):
        chunk_games = tuple(games[start : start + batch])
        # A chunk's randomness does not depend on the chunks before it, so each can be kept.
        chunk_seed = seed_of(seed, "rollout", start)
        chunk = Chunk(start, chunk_games, policy.name, round, max_turns, chunk_seed)
        episodes = keep.stored(chunk)
        if episodes is None:
            before = len(played), sum(episode.success for episode in played)
            episodes = play_chunk(
                chunk, make_env, policy, beat=beat, turned=partial(progress, *before)
            )
            keep.store(chunk, episodes)
        played += episodes
        progress(len(played), sum(episode.success for episode in played))
    return played


def play_chunk(
    chunk: Chunk,
    make_env: EnvFactory,
    policy: Policy,
    *,
    beat: Beat = no_beat,
    turned: Callable[[int], None] = lambda turn: None,
) -> list[Trajectory]:
    """One trajectory per game of the chunk, all played in lock-step; `turned` counts the turns."""
    episodes = [OpenEpisode(game.task, game.seed, make_env()) for game in chunk.games]
    for episode in episodes:
        task, world_seed = episode.task, episode.seed
        episode.attempt("reset", partial(episode.env.reset, task, seed=world_seed))
        beat()
    cap = chunk.max_turns or episodes[0].env.max_turns
    for turn in range(cap):
        still_open = [episode for episode in episodes if episode.outcome is None]
        if not still_open:
            break
        _advance(still_open, policy, seed_of(chunk.seed, turn), beat)
        turned(turn + 1)
    for episode in episodes:
        _close(episode.env)
    return [episode.trajectory(policy.name, chunk.round) for episode in episodes]


def _advance(episodes: Sequence[OpenEpisode], policy: Policy, seed: int, beat: Beat) -> None:
    dialogues = [episode.dialogue() for episode in episodes]
    replies: list[Reply | None] = policy.act(dialogues, seed=seed)
    for episode, reply in zip(episodes, replies, strict=True):
        if reply is None:
            episode.outcome = "truncated"
            continue
        episode.turns.append(episode.said(reply))
        episode.attempt("step", partial(episode.env.step, reply.text))
        beat()


def demonstrate(
    games: Sequence[Game], make_env: EnvFactory, *, hint: str = "", beat: Beat = no_beat
) -> list[Trajectory]:
    """The scripted expert's episodes, successful ones only; D_train(0) of the paper.

    An episode the environment breaks is left out. If all of them break, an EnvError says so, and
    its `hint` is the command that checks the environment.
    """
    env = make_env()
    if not isinstance(env, ExpertEnv):
        raise EnvError(
            f"environment {env.name!r} has no scripted expert, so it cannot demonstrate",
            hint="set buffer.demonstrations = 0, or give the environment expert() and actions()",
        )
    episodes: list[Trajectory] = []
    for game in games:
        episodes.append(scripted_episode(game, env, lambda e: e.expert(), name="expert"))
        beat()
    _close(env)
    if episodes and all(episode.outcome == "broken" for episode in episodes):
        count, first = len(episodes), _first(episodes)
        raise EnvError(
            f"environment {env.name!r}: all {count} demonstrations broke, {first}",
            hint=hint or f"fedse env check {env.name}",
        )
    return [episode for episode in episodes if episode.success]


def scripted_episode(
    game: Game, env: ExpertEnv, choose: Callable[[ExpertEnv], str], *, name: str
) -> Trajectory:
    """One episode in which `choose` sees the world itself, not only its text."""
    episode = OpenEpisode(game.task, game.seed, env)

    def move() -> Step:
        with boundary(EnvError, f"{game.task.env}.{name}"):
            action = choose(env)
        episode.turns.append(episode.said(Reply(action)))
        return env.step(action)

    episode.attempt("reset", partial(env.reset, game.task, seed=game.seed))
    while episode.outcome is None and len(episode.turns) < env.max_turns:
        episode.attempt("step", move)
    return episode.trajectory(name, 0)


def _close(env: Env) -> None:
    with boundary(EnvError, f"{env.name}.close"):
        env.close()


def require_sound(played: Sequence[Trajectory], *, hint: str = "") -> None:
    """At most MOST_BROKEN of the episodes broke; else the run stops and names the first cause.

    Its `hint` is the command that checks the environment.
    """
    broken = [episode for episode in played if episode.outcome == "broken"]
    if len(broken) > MOST_BROKEN * len(played):
        raise EnvError(
            f"{len(broken)} of {len(played)} episodes broke, {_first(broken)}",
            hint=hint or f"fedse env check {broken[0].task.env}",
        )


def _first(broken: Sequence[Trajectory]) -> str:
    return f"the first in task {broken[0].task.id!r} with {broken[0].error}"
