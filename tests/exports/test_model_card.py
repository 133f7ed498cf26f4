"""The card of an exported adapter has the run's own figures, and its commands work as written."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedse.cli.app import start
from fedse.committed import GateRecord, RoundResult
from fedse.exports.model_card import model_card
from fedse.ledger.record import run_ledger
from fedse.ledger.verifying import verify_ledger
from fedse.store.run_folder import read_card
from fedse.testing import toy_adapter
from tests.exports.toy_run import NAMES, make_run
from tests.needs import needs


def exported(root: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FEDSE_RUNS", str(root))
    assert start(["export", "adapter", "made", "--out", str(out)]) == 0
    return (out / "README.md").read_text()


def test_the_card_has_the_figures_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = ("north-clinic", "south-clinic")
    run = make_run(tmp_path / "runs", names=names)
    run_ledger(run, clock=lambda: 2.0)
    (*_, head) = verify_ledger(run.path / "ledger.jsonl").entries
    text = exported(tmp_path / "runs", tmp_path / "out", monkeypatch)
    assert f"| adapter sha256 | `{run.adapter(1).digest}` |" in text
    assert f"| digest of the base model | `{run.spec.base_digest}` |" in text
    assert f"| head of the ledger | `{head.hash}` (line {head.line}, " in text
    assert "| rounds | 1 of 1 |" in text
    # 1 of 8 before and 4 of 8 after, with their Wilson intervals.
    assert "| 0.12 [0.02, 0.47], 1 of 8 | 0.50 [0.22, 0.78], 4 of 8 |" in text
    assert "There was no gate" in text
    assert not [name for name in (*names, str(tmp_path)) if name in text]


def test_the_card_tells_what_the_gate_found(tmp_path: Path):
    run = make_run(tmp_path)
    gate = GateRecord(change=-0.25, bound=-0.1, sites=3, refused=True)
    before, after = run.adapter(1), toy_adapter(run.spec, 2, scale=0.1)
    run.commit(
        RoundResult(
            index=2,
            before=before.digest,
            after=run.store(after),
            voters=NAMES,
            stats={},
            bytes_down=2,
            bytes_up=2,
            seconds=1.0,
            gate=gate,
        )
    )
    text = model_card(run, read_card(run.path), after, 2)
    assert "refused 1 of 1 merged adapters. In round 2, with 3 sites" in text
    assert "The adapter of round 2 was not evaluated." in text
    assert "no gate" in model_card(run, read_card(run.path), before, 1), "it came later"


def test_a_model_of_a_hub_is_pinned(tmp_path: Path):
    run, revision = make_run(tmp_path), "0123456789" * 4
    adapter = run.adapter(1)
    spec = adapter.spec.model_copy(update={"base": f"owner/name@{revision}", "rank": 12})
    text = model_card(run, read_card(run.path), replace(adapter, spec=spec), 1)
    assert "\nbase_model: owner/name\n" in text
    assert "\nBASE = 'owner/name'\n" in text
    assert f'from_pretrained(BASE, revision="{revision}")' in text
    served = f'vllm serve "$BASE" --revision {revision} --enable-lora --max-lora-rank 16 '
    assert f"\nBASE=owner/name\n{served}" in text
    assert f"hf download owner/name --revision {revision} --local-dir base" in text


@pytest.mark.parametrize(
    ("base", "note"),
    [
        ("tiny", "The package `fed-se` finds the base model."),
        ("smollm2-135m", "after `fedse model get smollm2-135m`"),
        ("my model", "Change `BASE` if the folder `my model`"),
        ("owner/name@v1", "Run these lines in this folder.\n"),
    ],
)
def test_every_block_of_the_card_defines_what_it_uses(tmp_path: Path, base: str, note: str):
    run = make_run(tmp_path)
    adapter = run.adapter(1)
    spec = adapter.spec.model_copy(update={"base": base})
    text = model_card(run, read_card(run.path), replace(adapter, spec=spec), 1)
    assert note in text
    blocks = [block.partition("```")[0] for block in text.split("```")[1::2]]
    using = [block for block in blocks if "BASE" in block]
    assert len(using) == 3
    for block in using:
        assert re.search(r"^BASE ?=", block, re.MULTILINE)
        if block.startswith("bash\n"):
            checked = subprocess.run(["bash", "-n"], input=block.removeprefix("bash\n"), text=True)
            assert checked.returncode == 0
        else:
            compile(block.removeprefix("python\n"), "card", "exec")


def test_the_python_of_the_card_gives_the_model_that_acted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    needs("torch", "transformers", "peft")
    import torch

    from fedse.adapters.base import base_path
    from fedse.agent.loaded import load_base

    run = make_run(tmp_path / "runs")
    text = exported(tmp_path / "runs", tmp_path / "out", monkeypatch)
    (code,) = [block.partition("```")[0] for block in text.split("```python\n")[1:]]
    monkeypatch.chdir(tmp_path / "out")
    names: dict[str, Any] = {}
    exec(code, names)
    model, tokenizer = names["model"], names["tokenizer"]
    ids = torch.tensor([tokenizer.encode("at 1 1 goal down 2")])
    base = load_base(base_path(run.config.model.base))
    base.merge(run.adapter(1))
    with torch.inference_mode():
        ours = base.model(ids).logits
        loaded = model(ids).logits
        merged = model.merge_and_unload()(ids).logits
        base.restore()
        bare = base.model(ids).logits
    assert torch.allclose(ours, loaded, atol=1e-4)
    assert torch.allclose(ours, merged, atol=1e-4)
    assert not torch.allclose(ours, bare, atol=1e-2), "or the adapter would do nothing"
