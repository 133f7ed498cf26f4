"""How do the lone SmolLM2 agents do in the worlds of the others?

    FEDSE_MODELS=FOLDER python -m research.transfer_smollm2 --python PYTHON_WITH_VLLM --seeds 0 1 \
        --runs runs --result docs/results/smollm2-transfer.json

`runs` is the --out folder of `research/run_smollm2.py`. Every lone client's last adapter plays the
held-out games of the two other clients, the same games as everybody plays. A seed that the result
has already is not played again.
"""

import argparse
import json
import os
from pathlib import Path

import fedse
from fedse.__main__ import end_on_sigterm
from fedse.adapters.base import base_path
from fedse.api.experiment import load_experiment
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.engine.server import running_engine
from research.measure_transfer import Matrix, add, play_at
from research.run_smollm2 import CONFIG


def play_abroad(config: Config, runs: Path) -> Matrix:
    """Each lone adapter of the config's seed in the worlds it was not trained in."""
    names, seed, rounds = [one.name for one in config.clients], config.run.seed, config.run.rounds
    lone = {
        name: fedse.load_adapter(runs / f"local-evolve-{name}-{seed}", round=rounds)
        for name in names
    }
    abroad: Matrix = {}
    for name in names:
        strangers = {owner: adapter for owner, adapter in lone.items() if owner != name}
        found = play_at(name, strangers, config)
        print(seed, found, flush=True)
        add(abroad, found)
    return abroad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    args = parser.parse_args()
    found = json.loads(args.result.read_text()) if args.result.is_file() else {}
    config = load_experiment(CONFIG, settings=[f"engine.python={args.python}"]).config
    with running_engine(
        config, base_path(config.model.base), args.runs / "engine-abroad", tell=print
    ):
        for seed in args.seeds:
            if str(seed) in found:
                continue
            found[str(seed)] = play_abroad(with_settings(config, {"run.seed": seed}), args.runs)
            args.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    end_on_sigterm()
    main()
