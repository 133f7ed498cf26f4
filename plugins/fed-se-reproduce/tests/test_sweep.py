"""A sweep finds what its runs and `fedse compare` say, does nothing twice, and can be stopped."""

import csv
import json
import re
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedse.api import running
from fedse.api.measuring import compare
from fedse.cli.app import start
from fedse.drivers.run import run_local
from fedse.errors import ConfigError, Interrupted, MachineError
from fedse.results.outcome import result_of
from fedse.stats.rates import Rate, wilson
from fedse.store.run_folder import open_run
from fedse_reproduce import jobs
from fedse_reproduce.sweep.grid import cells_of, jobs_of_cells
from fedse_reproduce.sweep.results import over_seeds
from fedse_reproduce.sweep.rows import require_format, write_rows
from tests.needs import needs
from tests.toys.light_site import open_light_site

GAMES, ROUNDS, SITES = 6, 2, ("a", "b")
FILE = f"""
[run]
name = "coins"
rounds = {ROUNDS}
workers = 2
[rollout]
episodes = 2
[buffer]
demonstrations = 1
[splits]
home = 0.5
[eval]
episodes = {GAMES}
home = 4
""" + "".join(f'[[clients]]\nname = "{site}"\nenv = "fedse.testing:CoinWorld"\n' for site in SITES)
LONG = ["--grid", "rollout.episodes=2,3", "--seeds", "0-1"]


class Here:
    """Does what it is given at once, and can be stopped before its n-th piece of work."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.done, self.stop_at = 0, stop_at

    def submit(self, act: Any, *args: Any) -> "Future[Any]":
        if self.done == self.stop_at:
            raise KeyboardInterrupt
        future: Future[Any] = Future()
        future.set_result(act(*args))
        self.done += 1
        return future


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    """Experiments are done in this process, by sites without a model."""
    worker = Here()

    @contextmanager
    def in_this_process(count: int) -> Iterator[Here]:
        yield worker

    monkeypatch.setattr(jobs, "worker_processes", in_this_process)
    monkeypatch.setattr(jobs, "run_local", partial(run_local, open_site=open_light_site))
    return worker


def sweep(tmp_path: Path, *options: str) -> int:
    file = tmp_path / "coins.toml"
    file.write_text(FILE)
    return start(["sweep", str(file), "--out", str(tmp_path / "out"), *options])


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_table_is_what_the_runs_say(
    tmp_path: Path, here: Here, capsys: pytest.CaptureFixture[str]
):
    table = tmp_path / "all.csv"
    assert sweep(tmp_path, *LONG, "--table", str(table), "--json") == 0
    found = told(capsys)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert list(rows[0]) == [
        *("cell", "rollout.episodes", "seed", "round", "client", "env", "record", "played", "won")
    ]
    counts = {
        (r["cell"], int(r["seed"]), int(r["round"]), r["client"], r["record"]): (
            Rate(int(r["won"]), int(r["played"]))
        )
        for r in rows
    }
    assert len(counts) == len(rows) == 2 * 2 * (ROUNDS + 1) * len(SITES) * 2
    assert {(r["cell"], r["rollout.episodes"]) for r in rows} == {
        (f"rollout.episodes={number}", number) for number in ("2", "3")
    }
    for one in found["experiments"]:
        with closing(open_run(Path(one["run"]))) as run:
            result = result_of(run)
            assert one["adapter"] == run.adapter(ROUNDS).digest
        at = one["cell"], one["seed"]
        measured = {r: {c: counts[*at, r, c, "test"] for c in SITES} for r in range(ROUNDS + 1)}
        assert measured == result.success
        assert result.places["home"] == {c: counts[*at, ROUNDS, c, "home"] for c in SITES}
    for cell in found["cells"]:
        last = [
            rate
            for (label, _, round, _, record), rate in counts.items()
            if (label, record, round) == (cell["cell"], cell["record"], ROUNDS)
        ]
        assert cell["won"] == sum(rate.successes for rate in last)
        assert cell["played"] == sum(rate.n for rate in last)
        assert cell["low"] <= cell["rate"] <= cell["high"]


def test_a_difference_is_the_one_that_compare_finds(
    tmp_path: Path, here: Here, capsys: pytest.CaptureFixture[str]
):
    assert sweep(tmp_path, *LONG, "--set", "eval.home=0", "--json") == 0
    found = told(capsys)
    reference, other = found["cells"]
    runs = sorted(found["experiments"], key=lambda one: one["cell"])
    (contrast,) = compare(*(one["run"] for one in runs)).contrasts
    assert reference["difference"] is reference["verdict"] is None
    difference = other["difference"]
    assert (difference["value"], difference["low"], difference["high"]) == (
        contrast.found.micro.value,
        *contrast.found.micro.interval,
    )
    assert (difference["p"], difference["p_holm"]) == (contrast.p, contrast.p_holm)
    assert other["verdict"] == contrast.verdict == "no difference found"


def test_a_second_call_does_no_work_and_a_longer_one_only_what_is_new(
    tmp_path: Path, here: Here, capsys: pytest.CaptureFixture[str]
):
    assert sweep(tmp_path, *LONG) == 0
    first = capsys.readouterr()
    assert (here.done, "nothing" in first.err) == (4, False)
    assert sweep(tmp_path, *LONG) == 0
    second = capsys.readouterr()
    assert here.done == 4
    assert second.out == first.out
    assert "before  4 experiments, 8 rounds are done" in second.err
    assert sweep(tmp_path, "--grid", "rollout.episodes=3,2,4", "--seeds", "0-1") == 0
    assert here.done == 6


def test_after_a_stop_it_says_how_to_continue_and_continues(
    tmp_path: Path,
    here: Here,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    here.stop_at = 3
    monkeypatch.setattr("sys.argv", ["fedse", "sweep", "coins.toml"])
    assert sweep(tmp_path, *LONG) == Interrupted.exit_code
    assert "hint: it continues with: fedse sweep coins.toml\n" in capsys.readouterr().err
    here.stop_at = None
    assert sweep(tmp_path, *LONG) == 0
    assert here.done == 4


def test_sites_that_work_alone_count_together(
    tmp_path: Path, here: Here, capsys: pytest.CaptureFixture[str]
):
    methods = ["--method", "fed-se,local-evolve", "--seeds", "0", "--json"]
    assert sweep(tmp_path, *methods) == 0
    found = told(capsys)
    assert here.done == 1 + len(SITES)
    assert [one["clients"] for one in found["experiments"]] == [["a", "b"], ["a"], ["b"]]
    together, alone = (one for one in found["cells"] if one["record"] == "test")
    assert together["played"] == alone["played"] == len(SITES) * GAMES
    assert alone["difference"] is not None


def test_cells_that_played_other_games_are_not_compared(
    tmp_path: Path, here: Here, capsys: pytest.CaptureFixture[str]
):
    tasks = ["--grid", "clients.0.options={ tasks = 8 },{ tasks = 40 }", "--seeds", "0"]
    assert sweep(tmp_path, *tasks) == 0
    said = capsys.readouterr().out
    assert "other games" in said
    assert "not compared" in said
    assert "corrected" not in said


def test_the_table_fits_a_terminal_and_says_what_it_shows(
    tmp_path: Path, here: Here, capsys: pytest.CaptureFixture[str]
):
    grid = ["--grid", "train.lr=1e-4,2e-4", "--grid", "rollout.episodes=2,3"]
    assert sweep(tmp_path, *grid, "--seeds", "0-1") == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "success in tasks that no site has, the common adapter; 24 games a cell"
    assert lines[1].split() == (["lr", "episodes", "success", "minus", "A", "verdict", "CPU-s"])
    assert [line[:1] for line in lines[2:6]] == ["A", "B", "C", "D"]
    assert "verdicts corrected for 6 questions (Holm)" in said.out
    assert said.err.startswith(f"sweep of {tmp_path / 'coins.toml'}\n  work    4 cells, 2 seeds: ")
    assert max(map(len, said.err.replace(str(tmp_path), "").splitlines())) <= 80


def test_cells_with_long_names_are_listed_above_the_table(
    tmp_path: Path, here: Here, capsys: pytest.CaptureFixture[str]
):
    tasks = ["--grid", "clients.0.options={ tasks = 8, secret = 'a' },{ tasks = 8 }"]
    assert sweep(tmp_path, *tasks, "--seeds", "0", "--set", "eval.home=0") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == [
        "A  clients.0.options={ tasks = 8, secret = 'a' }",
        "B  clients.0.options={ tasks = 8 }",
    ]
    assert max(map(len, lines)) <= 80


def test_a_dry_run_lists_the_cells_and_starts_nothing(
    tmp_path: Path, here: Here, capsys: pytest.CaptureFixture[str]
):
    assert sweep(tmp_path, *LONG, "--dry-run") == 0
    assert capsys.readouterr().out.splitlines() == [
        "dry run: 4 experiments, 8 rounds in all; nothing was started",
        "  A  rollout.episodes=2",
        "  B  rollout.episodes=3",
    ]
    assert (here.done, (tmp_path / "out").exists()) == (0, False)


def test_an_error_says_which_cell_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken(*_: object, **__: object) -> None:
        raise MachineError("no memory", hint="buy some")

    pool = Here()
    monkeypatch.setattr(jobs, "worker_processes", lambda count: closing_pool(pool))
    monkeypatch.setattr(jobs, "run_local", broken)
    monkeypatch.setattr(Here, "submit", submit_later)
    assert sweep(tmp_path, *LONG) == MachineError.exit_code
    told = capsys.readouterr().err
    assert re.search(r"error: rollout.episodes=\d, seed \d: no memory\nhint: buy some\n$", told)


@contextmanager
def closing_pool(pool: Here) -> Iterator[Here]:
    yield pool


def submit_later(self: Here, act: Any, *args: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    try:
        future.set_result(act(*args))
    except MachineError as error:
        future.set_exception(error)
    return future


def test_the_rows_are_the_same_in_every_format(tmp_path: Path):
    needs("pyarrow")
    from pyarrow.parquet import read_table

    rows = [
        {"cell": "x, y", "train.lr": 1e-4, "seed": 0, "won": 3},
        {"cell": "z", "train.lr": 1.0, "seed": 1, "won": 0},
    ]
    for name in ("t.csv", "t.json", "t.parquet"):
        write_rows(rows, tmp_path / name)
    read = [
        json.loads((tmp_path / "t.json").read_text()),
        read_table(tmp_path / "t.parquet").to_pylist(),
        [
            {**row, "train.lr": float(row["train.lr"]), "seed": int(row["seed"])}
            | {"won": int(row["won"])}
            for row in csv.DictReader((tmp_path / "t.csv").read_text().splitlines())
        ],
    ]
    assert read == [rows, rows, rows]


def test_a_format_that_cannot_be_written_is_refused_at_once(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match=r"--table must end in .parquet, .csv, .json, got 't.xls"):
        require_format(Path("t.xls"))
    monkeypatch.setattr("fedse.errors.is_installed", lambda package: package != "pyarrow")
    with pytest.raises(MachineError, match=r"part of fed-se\[parquet\]"):
        require_format(Path("t.parquet"))
    require_format(Path("t.csv"))


def test_seeds_that_differ_widen_the_interval_beyond_that_of_the_games():
    alike = [[True, False] * 50] * 4
    apart = [[True] * 100, [False] * 100] * 2
    assert over_seeds(alike).low <= wilson(200, 400).low
    assert over_seeds(alike).high - over_seeds(alike).low < 0.15
    assert over_seeds(apart).high - over_seeds(apart).low > 0.5
    assert over_seeds([[False] * 30]) == wilson(0, 30)._replace(low=0.0)


def test_an_adapter_is_the_one_that_fedse_run_makes(tmp_path: Path):
    """With the tiny model: the same bits."""
    settings = {
        **{"run.rounds": 1, "rollout.episodes": 1, "rollout.max_turns": 2, "train.max_steps": 1},
        **{"buffer.demonstrations": 1, "eval.episodes": 2, "run.seed": 4},
    }
    file = tmp_path / "one.toml"
    file.write_text(
        '[model]\nbase = "tiny"\n[rollout]\ncontext = 512\n'
        '[[clients]]\nname = "a"\nenv = "maze"\noptions = { prompt = "short" }\n'
    )
    run = running.run(file, settings=settings, out=tmp_path, name="run")
    changed = [f"{key}={value}" for key, value in settings.items() if key != "run.seed"]
    (job,) = jobs_of_cells(file.read_text(), "one.toml", cells_of({}), (4,), changed)
    with closing(open_run(run.path)) as done:
        assert jobs.do_job(job, tmp_path / "sweep").adapter == done.adapter(1).digest
