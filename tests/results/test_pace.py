"""An estimate of a run's time is a ratio to what an earlier run took, and names that run."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from fedse.config.schema import Config
from fedse.results.pace import GamePace, earlier_pace, planned_games
from fedse.store.run_folder import create_run


def config(*envs: str, base: str = "tiny", **sections: object) -> Config:
    members = [{"name": f"c{i}", "env": env} for i, env in enumerate(envs)]
    return Config.model_validate({"model": {"base": base}, "clients": members, **sections})


def earlier(root: Path, name: str, settings: Config, *, games: int, seconds: float) -> None:
    create_run(root, settings, name=name, now=datetime(2026, 11, 1)).close()
    events = [
        {"event": "answer.received", "played": games - 2, "eval_played": 2},
        {"event": "round.committed", "seconds": seconds},
        # The last evaluation is not part of any round.
        {"event": "answer.received", "played": 0, "eval_played": 900},
    ]
    (root / name / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))


def test_the_newest_run_with_the_same_model_and_worlds_is_taken(tmp_path: Path):
    wanted = config("maze", "wordle")
    assert earlier_pace(tmp_path, wanted) is None
    earlier(tmp_path, "other-model", config("maze", "wordle", base="tiny-five"), games=2, seconds=9)
    assert earlier_pace(tmp_path, wanted) is None
    earlier(tmp_path, "same", config("wordle", "maze", "maze"), games=10, seconds=5)
    earlier(tmp_path, "other-worlds", config("maze"), games=10, seconds=20)
    assert earlier_pace(tmp_path, wanted) == GamePace(0.5, "same", same_worlds=True)
    (tmp_path / "same" / "config.resolved.toml").write_text("damaged")
    assert earlier_pace(tmp_path, wanted) == GamePace(2.0, "other-worlds", same_worlds=False)


@pytest.mark.parametrize(
    ("sections", "games"),
    [
        # 3 rounds of 10, and 4 evaluations of 5, for each of two clients.
        ({}, 2 * (3 * 10 + 4 * 5)),
        # The first round plays no games to learn from.
        ({"warmstart": {"rounds": 1}}, 2 * (2 * 10 + 4 * 5)),
        # The adapters that enter rounds 1 and 3, and the last one.
        ({"eval": {"episodes": 5, "every": 2}}, 2 * (3 * 10 + 3 * 5)),
        ({"eval": {"episodes": 0}}, 2 * 3 * 10),
    ],
)
def test_the_games_of_a_run_are_counted(sections: dict[str, object], games: int):
    lengths = {"run": {"rounds": 3}, "rollout": {"episodes": 10}, "eval": {"episodes": 5}}
    assert planned_games(config("maze", "maze", **{**lengths, **sections})) == games
