"""A run folder is complete or no run; what became of it can be read from outside."""

import json
import os
import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from fedse.adapters.base import initial_adapter
from fedse.config.file import load_config
from fedse.config.schema import ClientSection, Config
from fedse.errors import ConfigError, StoreError
from fedse.results.run_list import list_runs, summary_of
from fedse.stats.rates import Rate
from fedse.store.run import Run
from fedse.store.run_folder import (
    create_run,
    find_run,
    held,
    is_held,
    open_run,
    read_card,
    run_folders,
    runs_root,
)

CONFIG = Config(clients=(ClientSection(name="a", env="maze"), ClientSection(name="b", env="maze")))
NOW = datetime(2026, 11, 15, 12, 4, 11)
GIVEN = "# as given\n[[clients]]\n"


def made(root: Path, name: str | None = None) -> Run:
    return create_run(root, CONFIG, given=GIVEN, name=name, now=NOW, clock=lambda: 1.0)


def test_folder_holds_the_config_as_given_and_complete(tmp_path: Path) -> None:
    run = made(tmp_path / "runs")
    assert run.path.name == "20261115-120411-run"
    assert (run.path / "config.toml").read_text() == GIVEN
    assert load_config(run.path / "config.resolved.toml") == CONFIG
    card = read_card(run.path)
    assert (card.id, card.seed, card.spec_digest) == (run.path.name, 0, run.spec.digest)
    assert {"fedse", "python", "numpy"} <= set(card.versions)
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700


def test_names_are_unique(tmp_path: Path) -> None:
    assert [made(tmp_path).path.name for _ in range(3)] == [
        "20261115-120411-run", "20261115-120411-run-2", "20261115-120411-run-3"
    ]  # fmt: skip
    made(tmp_path, "mine")
    with pytest.raises(ConfigError, match="already a run") as caught:
        made(tmp_path, "mine")
    assert "fedse resume" in caught.value.hint


@pytest.mark.parametrize("name", ["../up", "", ".hidden", "a/b", "a b"])
def test_names_that_are_no_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="a run's name"):
        made(tmp_path, name)
    assert run_folders(tmp_path) == []


def test_open_gives_the_same_run(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.begin(initial_adapter(run.spec, seed=0))
    run.close()
    again = open_run(run.path, clock=lambda: 2.0)
    assert again.config == CONFIG
    assert again.committed == 0
    assert again.adapter(0).digest == initial_adapter(run.spec, seed=0).digest


def test_open_refuses_what_is_no_run_or_was_changed(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run folder"):
        open_run(tmp_path, clock=lambda: 0.0)
    run = made(tmp_path)
    resolved = run.path / "config.resolved.toml"
    resolved.write_text(resolved.read_text().replace("rounds = 20", "rounds = 21"))
    with pytest.raises(StoreError, match="was changed"):
        open_run(run.path, clock=lambda: 0.0)


def test_open_refuses_another_schema_and_another_model(tmp_path: Path) -> None:
    run = made(tmp_path)
    card = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**card, "spec_digest": "0" * 64}))
    with pytest.raises(StoreError, match="is not the one it was made with"):
        open_run(run.path, clock=lambda: 0.0)
    (run.path / "run.json").write_text(json.dumps({**card, "schema_version": 99}))
    with pytest.raises(StoreError, match="schema_version 99, this program reads 1"):
        open_run(run.path, clock=lambda: 0.0)
    assert list_runs(tmp_path)[0].status == "unreadable"


def test_find_by_path_id_and_last(tmp_path: Path) -> None:
    first, second = made(tmp_path, "first"), made(tmp_path, "second")
    os.utime(first.path / "run.json", ns=(1, 1))
    assert find_run("first", tmp_path) == first.path
    assert find_run(str(first.path), tmp_path / "elsewhere") == first.path
    assert find_run("last", tmp_path) == second.path
    with pytest.raises(StoreError, match="did you mean 'first'"):
        find_run("frist", tmp_path)


def test_root(tmp_path: Path) -> None:
    assert runs_root({"FEDSE_RUNS": "/r", "XDG_DATA_HOME": "/d"}) == Path("/r")
    assert runs_root({"XDG_DATA_HOME": "/d"}) == Path("/d/fedse/runs")
    assert runs_root({}) == Path.home() / ".local/share/fedse/runs"


def test_only_one_process_works_on_a_run(tmp_path: Path) -> None:
    run = made(tmp_path)
    code = (
        "import sys, pathlib, time; from fedse.store.run_folder import held\n"
        "with held(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert is_held(run.path)
        assert summary_of(run.path).status == "running"
        with pytest.raises(StoreError, match="another process"), held(run.path):
            pass
        other.kill()
    assert not is_held(run.path)
    with held(run.path):
        pass


def test_status_is_told_by_the_events(tmp_path: Path) -> None:
    run = made(tmp_path)
    assert summary_of(run.path).status == "not started"
    run.emit("run.started", rounds=3, committed=0, clients=2)
    run.emit("eval.recorded", round=0, client="a", played=10, won=2)
    run.emit("eval.recorded", round=0, client="b", played=10, won=3)
    run.emit("round.committed", round=1, seconds=1.0)
    summary = summary_of(run.path)
    assert (summary.status, summary.round, summary.rounds) == ("interrupted", 1, 3)
    assert (summary.first, summary.last) == (Rate(5, 20), None)
    run.emit("run.failed", error="no")
    assert (summary_of(run.path).status, summary_of(run.path).error) == ("failed", "no")
    run.emit("run.started", rounds=3, committed=1, clients=2)
    assert summary_of(run.path).status == "interrupted"
    run.emit("round.committed", round=3, seconds=1.0)
    # A repeated measurement replaces the first one.
    run.emit("eval.recorded", round=3, client="a", played=10, won=0)
    run.emit("eval.recorded", round=3, client="a", played=10, won=9)
    run.emit("run.finished", rounds=3)
    summary = summary_of(run.path)
    assert (summary.status, summary.last) == ("finished", Rate(9, 10))


def test_half_a_line_is_no_event(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.emit("run.started", rounds=3, committed=0, clients=2)
    with (run.path / "events.jsonl").open("a") as log:
        log.write('{"event": "round.committed", "rou')
    assert summary_of(run.path).status == "interrupted"


def test_a_place_where_no_folder_can_be_made_is_named_with_what_to_do(tmp_path: Path):
    blocked = tmp_path / "file" / "runs"
    blocked.parent.write_text("")
    with pytest.raises(StoreError) as caught:
        made(blocked)
    assert str(caught.value) == f"no run folder can be made in {blocked}: Not a directory"
    assert caught.value.hint.endswith("--out FOLDER, or export FEDSE_RUNS=FOLDER")
