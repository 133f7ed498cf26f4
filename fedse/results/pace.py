"""How long a run will take, judging by an earlier run of the same model on this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedse.config.schema import Config
from fedse.errors import FedSEError
from fedse.events import read_events
from fedse.store.run_folder import run_config, run_folders

LOOKED_AT = 50
"""How many of the newest runs are considered."""
GAMES = (
    "played",
    "eval_played",
    "home_played",
    "personal_played",
    "personal_home_played",
    "validation_played",
)


class GamePace(NamedTuple):
    """Seconds per game in an earlier run, including its share of the training."""

    seconds: float
    run: str
    same_worlds: bool
    """Whether that run had the same environments; other games may take longer."""


def earlier_pace(root: Path, config: Config) -> GamePace | None:
    """The newest run in `root` with the same base model, preferably with the same environments."""
    found = list(_paces(root, config))
    return next((pace for pace in found if pace.same_worlds), found[0] if found else None)


def _paces(root: Path, config: Config) -> Iterator[GamePace]:
    for path in reversed(run_folders(root)[-LOOKED_AT:]):
        try:
            earlier = run_config(path)
        except FedSEError:  # damaged, or of another version
            continue
        seconds = _seconds_per_game(path / "events.jsonl")
        if earlier.model.base == config.model.base and seconds:
            yield GamePace(seconds, path.name, _worlds(earlier) == _worlds(config))


def _worlds(config: Config) -> set[str]:
    return {client.env for client in config.clients}


def _seconds_per_game(log: Path) -> float | None:
    seconds, games, answered = 0.0, 0, 0
    for event in read_events(log, ['"answer.received"', '"round.committed"']):
        if event["event"] == "answer.received":
            answered += sum(event.get(name) or 0 for name in GAMES)
        else:
            # The last evaluation comes after the last round, whose seconds do not include it.
            seconds, games = seconds + event["seconds"], answered
    return seconds / games if games else None


def planned_games(config: Config) -> int:
    """Games of a whole run, all clients together; those of a gate and of personal ones left out.

    None are planned for a run without an end.
    """
    if config.run.open:
        return 0
    rounds, warm = config.run.last, min(config.warmstart.rounds, config.run.last)
    evaluations = 1 + sum((index - 1) % config.eval.every == 0 for index in range(1, rounds + 1))
    each = (rounds - warm) * config.rollout.episodes + evaluations * config.eval.games
    return each * len(config.clients)
