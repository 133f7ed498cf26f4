"""The two sides of the merge's benchmark read the same files."""

import json

import pytest

from fedse.cli.app import start
from research.bench.__main__ import app
from tests.needs import needs


def test_a_small_merge_is_measured(capsys):
    assert (
        start(["merge", "--megabytes", "2", "--clients", "3", "--repeats", "2", "--json"], app) == 0
    )
    results = json.loads(capsys.readouterr().out)
    assert len(results) == 2
    for one in results:
        assert (one["megabytes"], one["clients"]) == (pytest.approx(2.0, rel=0.01), 3)
        assert list(one["ratios"]) == ["no clip", "clipped at the median"]
        for name, ratio in one["ratios"].items():
            assert ratio == pytest.approx(one["fedse"][name] / one["bare"])


def test_a_small_fit_is_measured(tmp_path, capsys):
    needs("torch", "peft")
    file = tmp_path / "my.toml"
    file.write_text('[[clients]]\nname = "a"\nenv = "maze"\n')
    assert start(["train", str(file), "--lessons", "4", "--repeats", "1", "--json"], app) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["fit"]["tokens"] == result["bare"]["tokens"]
    assert 0 <= result["padding"] < 1
