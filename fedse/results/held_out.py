"""Held-out games of a run folder: counts per client, and each game where it is kept.

Counts are in the run's event log, so a server that never saw a game has them too. Single games
are in the clients' own buffers, RUN/clients/NAME/buffer.db, where those are on this machine. A
client plays the same held-out games under every method, if its name and run.seed are the same.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedse.errors import StoreError
from fedse.events import read_events
from fedse.stats.rates import Rate
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import seal_beside
from fedse.store.run_folder import read_card

MARKERS = ('"eval.recorded"', '"round.committed"', '"run.finished"')


class HeldOutGame(NamedTuple):
    """One held-out game and whether it succeeded."""

    task: str
    seed: int
    success: bool


def evaluations(path: Path) -> dict[int, dict[str, Rate]]:
    """Each client's count for the adapter after each round whose evaluation is over."""
    by_round: dict[int, dict[str, Rate]] = {}
    open_from: float = 0
    for event in read_events(path / "events.jsonl", MARKERS):
        match event["event"]:
            case "eval.recorded":
                by_client = by_round.setdefault(event["round"], {})
                by_client[event["client"]] = Rate(event["won"], event["played"])
            case "round.committed":
                open_from = max(open_from, event["round"])
            case "run.finished":
                open_from = float("inf")
    return {round: by_round[round] for round in sorted(by_round) if round < open_from}


def evaluated_round(path: Path, round: int | None = None) -> int:
    """`round` if its adapter was evaluated; for None, the last evaluated round."""
    evaluated = list(evaluations(path))
    if not evaluated:
        raise StoreError(
            f"run {path.name} has no finished evaluation",
            hint=f"eval.episodes = 0 measures nothing; if it was interrupted: fedse resume {path}",
        )
    if round is None:
        return evaluated[-1]
    if round not in evaluated:
        raise StoreError(
            f"run {path.name} did not evaluate the adapter after round {round},"
            f" only after {', '.join(map(str, evaluated))}",
            hint=f"--round {evaluated[-1]}",
        )
    return round


def counts(path: Path, round: int | None = None) -> dict[str, Rate]:
    """Per client, games succeeded and played by the adapter after `round` (None = the last)."""
    return evaluations(path)[evaluated_round(path, round)]


def games(
    path: Path, round: int | None = None, record: str = "test"
) -> dict[str, list[HeldOutGame]]:
    """Per client, every game on this record of the adapter after `round`, in position order."""
    chosen, experiment = evaluated_round(path, round), read_card(path).experiment
    reported = counts(path, chosen)
    by_client = {c: _games_of(path, c, experiment, chosen, record) for c in sorted(reported)}
    for client, played in by_client.items() if record == "test" else ():
        recorded = Rate(sum(game.success for game in played), len(played))
        if recorded != reported[client]:
            raise StoreError(
                f"run {path.name}: {client} reported success in {reported[client].successes} of "
                f"{reported[client].n} games after round {chosen}, "
                f"its buffer has {recorded.successes} of {recorded.n}",
                hint="the buffer was changed, or was made before single games were recorded",
            )
    return by_client


def outcomes(path: Path, round: int | None = None, record: str = "test") -> dict[str, list[bool]]:
    """Per client, the success of every game on this record with the adapter after `round`."""
    by_client = games(path, round, record)
    return {client: [game.success for game in played] for client, played in by_client.items()}


def require_same_games(
    a: Mapping[str, Sequence[HeldOutGame]],
    b: Mapping[str, Sequence[HeldOutGame]],
    *,
    names: tuple[str, str],
) -> None:
    """Both played the same games, so their successes can be paired; `names` are the two runs'."""
    if a.keys() != b.keys():
        odd = ", ".join(sorted(a.keys() ^ b.keys()))
        raise StoreError(f"runs {names[0]} and {names[1]} were not both measured by: {odd}")
    for client in a:
        first, second = ([game[:2] for game in run[client]] for run in (a, b))
        if first != second:
            raise StoreError(
                f"runs {names[0]} and {names[1]} played different held-out games at {client}"
                f" ({len(first)} and {len(second)} games)",
                hint="the same games need the same run.seed, client, environment and eval.episodes",
            )


def _games_of(
    path: Path, client: str, experiment: str, round: int, record: str
) -> list[HeldOutGame]:
    store = path / "clients" / client / "buffer.db"
    if not store.is_file():  # opening it would make one
        raise StoreError(
            f"run {path.name}: the single games of {client} are not on this machine",
            hint="a federation's server has counts only; each site has its own games",
        )
    with closing(Buffer(store, seal=seal_beside(store))) as buffer:
        # The adapter of a round plays its held-out games when the next round begins.
        return [
            HeldOutGame(game.task, game.seed, game.outcome == "success")
            for game in buffer.held_out(experiment, round + 1, record)
        ]
