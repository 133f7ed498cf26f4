"""How do the lone SmolLM2 agents do in the worlds of the others?

    FEDSE_MODELS=FOLDER python -m scripts.transfer_smollm2 --python PYTHON_WITH_VLLM --seeds 0 1 \
        --runs runs --result docs/results/smollm2-transfer.json

`runs` is the --out folder of `scripts/run_smollm2.py`. Every lone client's last adapter plays the
held-out games of the two other clients, the same games as everybody plays. A seed that the result
has already is not played again.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from fedse.__main__ import end_on_sigterm
from fedse.adapters.base import base_path
from fedse.api.experiment import load_experiment
from fedse.config.schema import Config
from fedse.engine.server import running_engine
from fedse.events import silent
from fedse.method.rounds import client_eval
from fedse.site.open import open_site
from fedse.store.run_folder import open_run
from fedse.types import Adapter
from scripts.run_smollm2 import CONFIG

Abroad = dict[str, dict[str, list[int]]]
"""Owner of the adapter -> another client -> held-out games won and played there."""


def last_adapter(run_folder: Path) -> Adapter:
    run = open_run(run_folder, clock=time.time)
    try:
        return run.adapter(run.config.run.rounds)
    finally:
        run.close()


def play_abroad(config: Config, runs: Path) -> Abroad:
    """Each lone adapter of the config's seed in the worlds it was not trained in."""
    names = [client.name for client in config.clients]
    abroad: Abroad = {owner: {} for owner in names}
    for name in names:
        with tempfile.TemporaryDirectory() as home:
            site = open_site(config, name, Path(home), clock=time.time)
            for owner in names:
                if owner == name:
                    continue
                adapter = last_adapter(runs / f"local-evolve-{owner}-{config.run.seed}")
                stats = client_eval(adapter, site, config, round=1, emit=silent)
                abroad[owner][name] = [stats.eval_succeeded, stats.eval_played]
                print(config.run.seed, owner, name, abroad[owner][name], flush=True)
            site.buffer.close()
    return abroad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    args = parser.parse_args()
    settings = [f"engine.python={args.python}"]
    found = json.loads(args.result.read_text()) if args.result.is_file() else {}
    config = load_experiment(CONFIG, settings=settings).config
    with running_engine(
        config, base_path(config.model.base), args.runs / "engine-abroad", tell=print
    ):
        for seed in args.seeds:
            if str(seed) in found:
                continue
            seeded = load_experiment(CONFIG, settings=[*settings, f"run.seed={seed}"]).config
            found[str(seed)] = play_abroad(seeded, args.runs)
            args.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    end_on_sigterm()
    main()
