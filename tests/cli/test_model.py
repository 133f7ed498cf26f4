"""`fedse model`: what is printed, what is refused and what to do then."""

import json
from pathlib import Path

import pytest

from tests.needs import needs

needs("torch", "transformers", "huggingface_hub", "gguf", "accelerate")

from fedse.adapters.base import SHIPPED, base_digest
from fedse.cli.app import start
from fedse.cli.display import NO_BARS, OFFLINE, set_quiet
from fedse.models.memory import engine_need, trainer_need
from fedse.models.shape import read_shape

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_show_prints_what_is_computed(capsys: pytest.CaptureFixture[str]):
    options = ["--rank", "2", "8", "--context", "64", "--in-flight", "3"]
    assert start(["model", "show", "tiny", *options, "--json"]) == 0
    facts, shape = json.loads(capsys.readouterr().out), read_shape(SHIPPED["tiny"])
    assert facts["digest"] == base_digest(SHIPPED["tiny"])
    assert facts["parameters"] == shape.parameters
    assert facts["adapters"] == [
        {
            "rank": rank,
            "parameters": shape.adapter_size(rank),
            "bytes": 4 * shape.adapter_size(rank),
        }
        for rank in (2, 8)
    ]
    engine = engine_need(shape, 2, context=64, in_flight=3)
    trainer = trainer_need(shape, 2, rank=8, tokens=64)
    assert facts["memory"]["bfloat16"]["engine"]["total"] == engine.total
    assert (
        facts["memory"]["bfloat16"]["trainer"]["total_checkpointed"] == trainer.total_checkpointed
    )


def test_show_for_people(capsys: pytest.CaptureFixture[str]):
    assert start(["model", "show", "tiny"]) == 0
    out = capsys.readouterr().out
    assert f"digest        {base_digest(SHIPPED['tiny'])}\n" in out
    assert "parameters    474,720\n" in out
    assert "  rank 8         58,368 parameters     0.23 MB\n" in out
    assert "memory in GB, an estimate" in out


def test_a_config_alone_has_no_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    config = (SHIPPED["tiny"] / "config.json").read_text()
    (tmp_path / "config.json").write_text(config)
    assert start(["model", "show", str(tmp_path)]) == 0
    assert "digest        none: there are no weights" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "told", "hint"),
    [
        (["get", "tiny"], 2, "comes with fedse", "fedse model show tiny"),
        (["get", "gpt9"], 2, "no model 'gpt9'", "fedse model get smollm2-135m"),
        (["get", "some/model"], 2, "no model 'some/model'", "some/model@REVISION"),
        (["get", "some/model@main"], 2, "main is a branch", "some/model@REVISION"),
        (["get", f"some/model@{COMMIT}"], 3, "HF_HUB_OFFLINE", f"get some/model@{COMMIT}"),
        (["get", "some/model@v1", "--to", "x"], 2, "--to is for", "HF_HOME=FOLDER"),
        (["show", "some/model"], 3, "no config.json", "some/model@REVISION"),
        (["show", "some/model@v1"], 3, "is not in", "fedse model get some/model@v1"),
        (["show", "smollm2-135m"], 3, "no config.json", "fedse model get smollm2-135m"),
        (["show", "nowhere"], 3, "no config.json in nowhere", "to one of tiny, tiny-five"),
        (["show", "tiny", "--rank", "0"], 2, "--rank must be at least 1, got 0", ""),
    ],
)
def test_refusals_say_what_to_do(
    arguments: list[str],
    code: int,
    told: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    for name, value in {**OFFLINE, "HF_HOME": "hf", "FEDSE_MODELS": "models"}.items():
        monkeypatch.setenv(name, value)
    assert start(["model", *arguments]) == code
    message, _, next_step = capsys.readouterr().err.partition("hint: ")
    assert told in message
    assert hint in next_step
    assert [*tmp_path.iterdir()] == []


def test_only_what_fetches_may_ask_a_hub():
    fetching: dict[str, str] = {}
    set_quiet(fetching, offline=False)
    others = dict(fetching)
    set_quiet(others)
    assert others.items() - fetching.items() == OFFLINE.items()


def test_bars_are_drawn_only_where_they_are_asked_for():
    with_bars: dict[str, str] = {}
    set_quiet(with_bars, bars=True)
    without: dict[str, str] = {}
    set_quiet(without)
    assert without.items() - with_bars.items() == NO_BARS.items()
