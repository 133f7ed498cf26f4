"""Run folders with held-out games of known outcome, written as a finished run leaves them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedse.config.file import dump_config
from fedse.config.schema import ClientSection, Config
from fedse.store.buffer import Buffer
from fedse.store.run_folder import RunCard
from fedse.types import Task, Trajectory

Outcomes = Mapping[str, Sequence[bool]]
"""Per client, whether each game was won; a client is named after its environment: maze-a."""


def write_run(
    path: Path,
    outcomes: Outcomes,
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    first: Outcomes | None = None,
    played_with: int | None = None,
    kept: bool = True,
) -> Path:
    """A run of two rounds; its last adapter won `outcomes`, its first `first` (default: nothing).

    `played_with` is the seed of the games, if not that of the run; without `kept` there are counts
    but no single games, as on a server.
    """
    clients = tuple(ClientSection(name=name, env=name.partition("-")[0]) for name in outcomes)
    given: dict[str, object] = {"run": {"name": "x", "rounds": 2, "seed": seed}, **(settings or {})}
    config = Config.model_validate({"clients": [c.model_dump() for c in clients], **given})
    path.mkdir(parents=True)
    (path / "config.resolved.toml").write_text(dump_config(config))
    write_card(path, config)
    before = first or {client: [False] * len(won) for client, won in outcomes.items()}
    log = [{"event": "round.committed", "round": 2}, {"event": "run.finished"}]
    for after, found in ((0, before), (2, outcomes)):
        for client, won in found.items():
            count = {"played": len(won), "won": sum(won)}
            log.insert(-1, {"event": "eval.recorded", "round": after, "client": client, **count})
            if kept:
                games = seed if played_with is None else played_with
                _record(
                    path, client, [_game(client, after, i, games, w) for i, w in enumerate(won)]
                )
    (path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    return path


def write_card(path: Path, config: Config) -> None:
    digests = dict.fromkeys(("config_digest", "agreed_digest", "spec_digest"), "0")
    card = RunCard(
        id=path.name,
        created="2026-01-01T00:00:00+00:00",
        experiment=config.run.name,
        seed=config.run.seed,
        versions={},
        **digests,
    )
    (path / "run.json").write_text(card.model_dump_json())


def _record(path: Path, client: str, episodes: list[Trajectory]) -> None:
    buffer = Buffer(path / "clients" / client / "buffer.db")
    buffer.record_played(episodes, experiment="x", bodies=True)
    buffer.close()


def _game(client: str, after: int, place: int, games: int, won: bool) -> Trajectory:
    env = client.partition("-")[0]
    return Trajectory(
        task=Task(env=env, id=f"{env}-{place}", split="test"),
        seed=1000 * games + place,
        turns=(),
        outcome="success" if won else "failure",
        reward=float(won),
        policy="p",
        round=after + 1,
    )
