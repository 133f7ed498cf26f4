"""What is taken from a finished run."""

from contextlib import closing
from pathlib import Path

from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.store.run_folder import create_run
from fedse_reproduce.jobs import collect

ROUNDS = 3
JOINS = 3


def test_a_newcomer_is_found_from_the_adapter_on_that_it_was_given(tmp_path: Path):
    config = Config.model_validate(
        {
            "run": {"name": "late", "rounds": ROUNDS},
            "model": {"base": "tiny"},
            "rollout": {"episodes": 1, "context": 512, "max_turns": 2},
            "buffer": {"demonstrations": 1},
            "train": {"max_steps": 1},
            "eval": {"episodes": 4, "every": 1},
            "clients": [
                {"name": "early", "env": "maze", "options": {"prompt": "short"}},
                {"name": "late", "env": "maze", "options": {"prompt": "short"}, "joins": JOINS},
            ],
        }
    )
    with closing(create_run(tmp_path, config)) as run:
        run_local(run)
        found = collect(run, 0.0)
    played = found.games["test"]
    assert list(played) == list(range(ROUNDS + 1))
    assert [round for round, clients in played.items() if "late" in clients] == [
        round for round in range(ROUNDS + 1) if round >= JOINS - 1
    ]
    assert {len(games) for clients in played.values() for games in clients.values()} == {4}
