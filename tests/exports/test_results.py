"""The results file says what the run measured, in lm-eval's words."""

import json
import os
from math import isclose, sqrt
from pathlib import Path

import pytest

from fedse.adapters.peft_folder import export_adapter
from fedse.cli.app import start
from fedse.stats.rates import by_env, rates
from tests.exports.toy_run import EVALS, make_run

ENV = "fedse.testing:CoinWorld"


@pytest.fixture(autouse=True)
def runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.mark.parametrize("round", [0, 1])
def test_reading_it_back_gives_the_runs_own_rates(runs_here: Path, tmp_path: Path, round: int):
    run = make_run(runs_here)
    out = tmp_path / "results.json"
    assert start(["export", "results", "made", "--out", str(out), "--round", str(round)]) == 0
    found = json.loads(out.read_text())
    measured = by_env(rates(run.evals(round)), run.config)
    assert {env: r["success,none"] for env, r in found["results"].items()} == {
        env: rate.value for env, rate in measured.items()
    }
    assert found["n-samples"] == {
        e: {"original": r.n, "effective": r.n} for e, r in measured.items()
    }
    p, n = measured[ENV].value, measured[ENV].n
    assert isclose(found["results"][ENV]["success_stderr,none"], sqrt(p * (1 - p) / (n - 1)))
    assert {c: (v["won"], v["played"]) for c, v in found["clients"].items()} == EVALS[round]
    assert found["config"]["model_args"]["adapter"] == run.adapter(round).digest


def test_the_last_measured_round_is_the_default(runs_here: Path, tmp_path: Path):
    make_run(runs_here)
    out = tmp_path / "results.json"
    assert start(["export", "results", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["config"]["model_args"]["round"] == 1
    assert {"results", "configs", "versions", "config", "date", "n-samples"} <= set(found)
    assert str(tmp_path) not in out.read_text()
    assert os.path.expanduser("~") not in out.read_text()


def test_a_round_without_evaluation_names_those_that_have_one(
    runs_here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    make_run(runs_here)
    out = tmp_path / "results.json"
    assert start(["export", "results", "made", "--out", str(out), "--round", "7"]) == 2
    assert "no evaluation of round 7, only of 0, 1" in capsys.readouterr().err
    assert not out.exists()


def test_an_adapter_is_the_folder_the_run_would_write(runs_here: Path, tmp_path: Path):
    run = make_run(runs_here)
    for round in (0, 1):
        out, expected = tmp_path / f"a{round}", tmp_path / f"b{round}"
        argv = ["export", "adapter", "made", "--round", str(round), "--out", str(out)]
        assert start(argv) == 0
        export_adapter(run.adapter(round), expected)
        files = sorted(path.name for path in expected.iterdir())
        assert files == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
        assert files == sorted(path.name for path in out.iterdir())
        weights = [file for file in files if file != "README.md"]
        assert all((out / f).read_bytes() == (expected / f).read_bytes() for f in weights)
