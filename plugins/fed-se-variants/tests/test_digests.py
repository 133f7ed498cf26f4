"""Each variant gives the adapters it gave when it was part of fedse, at commit 063bd80.

digests.json was made there, by runs of small.toml with the settings of that time; GRPO and DPO came
later, and theirs are those of their first version.
"""

import json
from pathlib import Path

import pytest

from fedse.config.file import load_config
from fedse.config.methods import with_settings
from fedse.drivers.run import run_local
from fedse.plugins import PACKAGES
from fedse.store.run_folder import create_run
from tests.needs import needs

needs("torch", "fedse_worlds")

HERE = Path(__file__).parent
EXPECTED: dict[str, list[str]] = json.loads((HERE / "digests.json").read_text())
QUICK = ("outer Nesterov", "A and B in turn", "KTO", "GRPO", "DPO")
SLOW = ("mean", "outer Adam, FedExP", "ranks per site", "frontier", "hindsight")
"""With the quick ones, each variant once; `.ci/long` plays all the others."""
CASES: dict[str, dict[str, object]] = {
    "mean": {},
    "B only": {"train.factors": "b"},
    "FedExP": {"aggregate.type": "fedexp"},
    "FedExP from 2": {
        "aggregate.type": "fedexp",
        "aggregate.step": 2.0,
        "aggregate.options": {"most": 3.0},
    },
    "outer Nesterov": {"aggregate.type": "nesterov"},
    "outer Nesterov, rate 1": {
        "aggregate.type": "nesterov",
        "aggregate.options": {"lr": 1.0, "momentum": 0.5},
    },
    "outer Adam": {"aggregate.type": "adam"},
    "outer Adam, FedExP": {"aggregate.type": "adam", "aggregate.options": {"of": "fedexp"}},
    "B only, outer Nesterov": {"train.factors": "b", "aggregate.type": "nesterov"},
    "mean of products": {"aggregate.type": "product"},
    "mean of products, FedExP": {
        "aggregate.type": "product",
        "aggregate.options": {"step": "fedexp"},
    },
    "mean of products, step 2": {"aggregate.type": "product", "aggregate.step": 2.0},
    "A and B in turn": {"train.loss": "in-turn"},
    "A and B in turn, kept": {"train.loss": "in-turn", "train.optimizer": "kept"},
    "ranks per site": {
        "aggregate.type": "product",
        "train.loss": "ranks",
        "train.options": {"ranks": {"mazes": 2}},
    },
    "ranks per site, kept": {
        "aggregate.type": "product",
        "train.loss": "ranks",
        "train.options": {"ranks": {"mazes": 2}},
        "train.optimizer": "kept",
    },
    "KTO": {"train.loss": "kto"},
    "KTO, other numbers": {
        "train.loss": "kto",
        "train.options": {
            "failures": 0.5,
            "beta": 0.3,
            "desirable_weight": 0.7,
            "undesirable_weight": 1.3,
            "sft_weight": 0.2,
            "reference": "base",
        },
    },
    "KTO, pieces": {"train.loss": "kto", "trainer.max_tokens": 600},
    "KTO, warm start": {"train.loss": "kto", "warmstart.rounds": 1},
    "GRPO": {"train.loss": "grpo", "train.options": {"group": 4}},
    "DPO": {"train.loss": "dpo"},
    "frontier": {"select.type": "frontier"},
    "frontier, 1 try": {"select.type": "frontier", "select.options": {"tries": 1}},
    "frontier, 1 per task": {"select.type": "frontier", "select.options": {"per_task": 1}},
    "hindsight": {"select.type": "hindsight"},
}


def test_every_variant_has_its_digests():
    assert set(CASES) == set(EXPECTED)
    assert len({*map(tuple, EXPECTED.values())}) >= len(EXPECTED) - 2


def test_each_variant_is_in_one_that_every_run_of_ci_plays():
    played = json.dumps([CASES[name] for name in (*QUICK, *SLOW)])
    added = {v for group in PACKAGES.values() for v in group.get("fed-se-variants", ())}
    assert len(added) == 11
    assert {variant for variant in added if f'"{variant}"' not in played} == set()


EACH = [
    *QUICK,
    *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    *(pytest.param(name, marks=pytest.mark.long) for name in CASES if name not in QUICK + SLOW),
]


@pytest.mark.parametrize("name", EACH)
def test_it_gives_the_adapters_it_always_gave(name: str, tmp_path: Path):
    config = with_settings(load_config(HERE / "small.toml"), CASES[name])
    with create_run(tmp_path, config) as run:
        run_local(run)
        rounds = range(1, config.run.rounds + 1)
        assert [run.adapter(index).digest for index in rounds] == EXPECTED[name]
