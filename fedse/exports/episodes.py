"""The episodes of the clients on this machine: listed, filtered, and given as rows and messages.

Reads the clients' own buffers and writes there only that something was exported. What an agent saw
and said stays where it is unless the user exports it, and every exported file is readable by its
owner only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fedse.agent.conversations import Conversation, conversations_of
from fedse.config.file import load_config
from fedse.config.schema import Config
from fedse.envs.base import make_env, role_prompts_of
from fedse.errors import ConfigError, FedSEError, StoreError, boundary
from fedse.redact.episode import text_filter
from fedse.store.buffer import Buffer, Played
from fedse.store.buffer_key import seal_beside
from fedse.store.exported import ExportedFile
from fedse.store.run_folder import find_run
from fedse.suggest import closest
from fedse.types import Clock, Outcome, Split, Trajectory

Prompts = Mapping[str, str]
"""Role -> its system prompt; that of an agent without roles is the empty role's."""
Dropped = Literal["", "held-out", "failed", "truncated", "broken", "duplicate"]
WORDS: Mapping[Outcome, Dropped] = {
    "success": "duplicate",
    "failure": "failed",
    "truncated": "truncated",
    "broken": "broken",
}
"""Why an episode of that outcome was not learned from."""
# Each takes three of the 1024 files a process may usually have open.
MOST_OPEN = 100


class Origin(NamedTuple):
    """Where the episodes come from."""

    run_id: str
    experiment: str
    model: str
    """Name of the base model, without a folder."""
    created: datetime


class Source(NamedTuple):
    """One client's record of one experiment."""

    client: str
    experiment: str
    buffer: Path


class Place(NamedTuple):
    """A run folder with its clients, or the home of a site."""

    path: Path
    config: Config | None
    """None = a site's home, which does not hold the experiment's settings."""
    sources: tuple[Source, ...]

    @property
    def run_id(self) -> str:
        return self.path.resolve().name


class StoredEpisode(NamedTuple):
    """A game on record, and whether it was learned from."""

    source: Source
    game: Played
    """Without its text, which `load_texts` reads."""
    dropped: Dropped
    """Why it was not learned from; empty if it was."""

    @property
    def kept(self) -> bool:
        return not self.dropped

    @property
    def demonstration(self) -> bool:
        return self.game.round == 0


class Wanted(NamedTuple):
    """Which episodes; None = any."""

    round: int | None = None
    client: str | None = None
    env: str | None = None
    outcome: Outcome | None = None
    split: Split | None = None
    task: str | None = None
    kept: bool = False
    """Only those that were learned from."""


def find_place(name: str, root: Path) -> Place:
    """The run or site home called `name`: a path, an id in `root`, or `last`."""
    if not (Path(name) / "run.json").is_file() and (buffers := _buffers(Path(name))):
        return Place(Path(name), None, tuple(s for b in buffers for s in _sources_of(b)))
    path = find_run(name, root)
    config = load_config(path / "config.resolved.toml")
    named = [
        Source(client.name, config.run.name, path / "clients" / client.name / "buffer.db")
        for client in config.clients
    ]
    here = tuple(source for source in named if source.buffer.is_file())
    if not here:
        raise StoreError(
            f"run {path.name} has no client's data on this machine: episodes stay at the sites",
            hint="at a site: fedse view HOME, with the site's own folder",
        )
    return Place(path, config, here)


def list_episodes(place: Place) -> list[StoredEpisode]:
    """All episodes there, the oldest first; held-out games are played before a round explores."""
    order = {source: number for number, source in enumerate(place.sources)}
    episodes = [episode for source in place.sources for episode in _episodes(source)]
    return sorted(episodes, key=lambda e: (*e.game[:3], order[e.source]))


def matching(episodes: Sequence[StoredEpisode], wanted: Wanted) -> list[StoredEpisode]:
    """The episodes that are `wanted`; an unknown name is an error, not an empty list."""
    for what, name, names in (
        ("client", wanted.client, {episode.source.client for episode in episodes}),
        ("environment", wanted.env, {episode.game.env for episode in episodes}),
        ("task", wanted.task, {episode.game.task for episode in episodes}),
    ):
        if name is not None and name not in names:
            raise ConfigError(_unknown(what, name, names))
    rounds = {episode.game.round for episode in episodes}
    if wanted.round is not None and wanted.round not in rounds:
        there = f"only rounds {min(rounds)} to {max(rounds)}" if rounds else "nor of any other"
        raise ConfigError(f"no episode of round {wanted.round} is on record, {there}")
    return [episode for episode in episodes if _fits(episode, wanted)]


def load_texts(
    episodes: Iterable[StoredEpisode],
) -> Iterator[tuple[StoredEpisode, Trajectory | None]]:
    """Each episode with its text; None where the text was not kept."""
    opened: dict[Path, Buffer] = {}
    try:
        for episode in episodes:
            path = episode.source.buffer
            with boundary(StoreError, f"buffer {path}"):
                if path not in opened:
                    if len(opened) == MOST_OPEN:
                        opened.pop(next(iter(opened))).close()
                    opened[path] = _opened(path)
                trajectory = opened[path].said(episode.source.experiment, episode.game)
            yield episode, trajectory
    finally:
        for buffer in opened.values():
            buffer.close()


def note_export(episodes: Sequence[StoredEpisode], out: Path, *, clock: Clock) -> None:
    """The buffers record the export, so that a later erasure can name the copy."""
    for path in sorted({episode.source.buffer for episode in episodes}):
        games = [episode.game for episode in episodes if episode.source.buffer == path]
        made = ExportedFile(path=str(out.resolve()), made=clock(), episodes=len(games))
        with boundary(StoreError, f"buffer {path}"), closing(_opened(path)) as buffer:
            buffer.exports.note(made, {(game.env, game.task) for game in games})


def system_prompts(place: Place) -> dict[str, Prompts]:
    """Each client's system prompts; none for a site's home, which does not hold the settings."""
    prompts: dict[str, Prompts] = {}
    members = place.config.clients if place.config else ()
    hide = text_filter(place.config.redact, place.path) if place.config else str
    for client in members:
        try:
            with closing(make_env(client.env, client.options)) as env:
                known = {"": env.system_prompt, **role_prompts_of(env)}
                prompts[client.name] = {role: hide(text) for role, text in known.items()}
        except FedSEError as error:
            why = f"the system prompt of client {client.name!r} is not available: {error}"
            raise type(error)(why, hint=error.hint) from error
    return prompts


def messages_of(system: str, said: Trajectory | Conversation) -> list[dict[str, str]]:
    """The turns as a chat, with the environment as the user."""
    messages = [{"role": "system", "content": system}] if system else []
    for turn in said.turns:
        messages += [
            {"role": "user", "content": turn.observation},
            {"role": "assistant", "content": turn.action},
        ]
    return messages


def facts_of(episode: StoredEpisode, run_id: str) -> dict[str, Any]:
    """Everything on record about an episode except its text."""
    client, game = episode.source.client, episode.game
    return {
        "id": f"{run_id}/{client}/{game.round}/{game.split}/{game.position}",
        "run_id": run_id,
        "round": game.round,
        "client": client,
        "env": game.env,
        "task_id": game.task,
        "seed": game.seed,
        "split": game.split,
        "outcome": game.outcome,
        "success": game.outcome == "success",
        "demonstration": episode.demonstration,
        "kept": episode.kept,
        "drop_reason": episode.dropped or None,
    }


def rows_of(
    episode: StoredEpisode, trajectory: Trajectory, *, run_id: str, prompts: Prompts
) -> Iterator[dict[str, Any]]:
    """The episode as one flat record with its `messages`; of an agent with roles, one record for
    each conversation, which also names the role and the thread."""
    facts, rewards = facts_of(episode, run_id), dict(trajectory.role_rewards)
    for one in conversations_of(trajectory) or [Conversation("", 0, ())]:
        who = {"role": one.role, "thread": one.thread} if one.role else {}
        yield {
            **facts,
            **({"id": f"{facts['id']}/{one.role}/{one.thread}"} if who else {}),
            **who,
            "reward": rewards.get(one.role, trajectory.reward),
            "turns": len(one.turns),
            "adapter": trajectory.policy,
            "messages": messages_of(prompts.get(one.role, prompts.get("", "")), one),
        }


def _buffers(home: Path) -> list[Path]:
    alone = home / "buffer.db"
    return [alone] if alone.is_file() else sorted(home.glob("*/buffer.db"))


def _sources_of(path: Path) -> Iterator[Source]:
    with boundary(StoreError, f"buffer {path}"), closing(_opened(path)) as buffer:
        for experiment in buffer.experiments():
            yield Source(path.resolve().parent.name, experiment, path)


def _episodes(source: Source) -> Iterator[StoredEpisode]:
    path = source.buffer
    with boundary(StoreError, f"buffer {path}"), closing(_opened(path)) as buffer:
        played = list(buffer.games(source.experiment))
        learned = list(buffer.kept(source.experiment))
    recorded, kept = {_key(game) for game in played}, {_key(game) for game in learned}
    # Demonstrations and relabelled failures are learned from without having been played. They
    # are listed after the games of their round.
    after = len(played)
    made = [g._replace(position=after + g.position) if g.round else g for g in learned]
    unplayed = [game for game in made if _key(game) not in recorded]
    learnable: set[Outcome] = {"success", *(game.outcome for game in learned)}
    for game in (*unplayed, *played):
        yield StoredEpisode(source, game, "" if _key(game) in kept else _dropped(game, learnable))


def _opened(path: Path) -> Buffer:
    return Buffer(path, seal=seal_beside(path))


def _key(game: Played) -> tuple[int, str, str, int]:
    return game.round, game.split, game.task, game.seed


def _dropped(game: Played, learnable: set[Outcome]) -> Dropped:
    if not game.split.startswith("train"):
        return "held-out"
    return "duplicate" if game.outcome in learnable else WORDS[game.outcome]


def _fits(episode: StoredEpisode, wanted: Wanted) -> bool:
    game = episode.game
    pairs = (
        (wanted.round, game.round),
        (wanted.client, episode.source.client),
        (wanted.env, game.env),
        (wanted.outcome, game.outcome),
        (wanted.split, game.split),
        (wanted.task, game.task),
    )
    return all(want in (None, actual) for want, actual in pairs) and episode.kept >= wanted.kept


def _unknown(what: str, name: str, names: set[str]) -> str:
    near = closest(name, sorted(names))
    if near:
        return f"there is no {what} {name!r} on record, did you mean {near!r}?"
    some = ", ".join(map(repr, sorted(names)[:5])) + (", ..." if len(names) > 5 else "")
    return f"there is no {what} {name!r} on record, only {some or 'none at all'}"
