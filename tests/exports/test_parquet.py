"""The Parquet file: what went in comes out, and other tools learn from it unchanged."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exports.toy_run import make_run
from tests.needs import needs, optional

needs("pyarrow")

from pyarrow import parquet

from fedse.adapters.base import base_path
from fedse.cli.app import start
from fedse.exports.parquet import COLUMNS, write_parquet

ROOT = Path(__file__).parents[2]


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    make_run(tmp_path / "runs")
    out = tmp_path / "out.parquet"
    argv = ["export", "trajectories", "made", "--to", "parquet", "--out", str(out)]
    assert start(argv) == 0
    assert start(argv) == 2, "an existing file is not replaced"
    assert start([*argv[:-1], str(tmp_path / "kept.parquet"), "--kept"]) == 0
    return out


def test_rows_are_the_episodes(exported: Path):
    rows = parquet.read_table(exported).to_pylist()
    assert list(rows[0]) == list(COLUMNS)
    assert len({row["id"] for row in rows}) == len(rows) == 18
    won = next(row for row in rows if row["id"] == "made/beta/1/train/1")
    assert won["messages"][-1] == {"role": "assistant", "content": "Thought: which?\nAction: heads"}
    assert won["messages"][0]["role"] == "system"
    assert (won["reward"], won["success"], won["turns"], won["seed"]) == (1.0, True, 2, 1002)
    assert (won["kept"], won["drop_reason"], won["adapter"]) == (True, None, "ab" * 32)


def test_kept_are_the_successes_that_were_learned_from(exported: Path):
    rows = parquet.read_table(exported.with_name("kept.parquet")).to_pylist()
    assert [row["success"] for row in rows] == [True] * 6
    chats = [(row["client"], json.dumps(row["messages"]), row["task_id"]) for row in rows]
    assert len(set(chats)) == 6
    assert {row["split"] for row in rows} == {"train"}


def test_only_the_owner_reads_it_and_a_failure_leaves_nothing(exported: Path):
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    out = exported.with_name("torn.parquet")

    def torn():
        yield from ()
        raise RuntimeError("the world ended")

    before = sorted(out.parent.iterdir())
    with pytest.raises(Exception, match="the world ended"):
        write_parquet(torn(), out)
    assert sorted(out.parent.iterdir()) == before


def test_texts_that_were_not_kept_are_counted_not_invented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    make_run(tmp_path / "runs", keep=False)
    argv = ["export", "trajectories", "made", "--to", "parquet", "--out", str(tmp_path / "x")]
    assert start(argv) == 0
    told = capsys.readouterr()
    assert told.out.startswith("6 episodes in ")
    assert "12 episodes omitted because their text was not kept" in told.err
    assert start([*argv[:-1], str(tmp_path / "y"), "--outcome", "failure"]) == 7
    assert "hint: set buffer.keep_played = true" in capsys.readouterr().err
    assert not (tmp_path / "y").exists()


@pytest.mark.slow
@optional("trl")
def test_trl_learns_the_agents_words_only(exported: Path):
    command = [sys.executable, str(ROOT / "examples" / "train_with_trl.py")]
    data, model = str(exported.with_name("kept.parquet")), str(base_path("tiny"))
    done = subprocess.run(
        [*command, data, "--model", model, "--steps", "2"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["episodes"] == 6
    assert len(told["losses"]) == 2
    assert all(0 < loss < 100 for loss in told["losses"])
    said = [part.partition("<|end|>")[0] for part in told["given"].split("<|assistant|>")[1:]]
    assert told["learned"] == "".join(f"{text}<|end|>" for text in said)
    assert "heads" in told["learned"].replace(" ", "")
