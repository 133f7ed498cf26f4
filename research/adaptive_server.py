"""Can a server bring out more with adapters of its own making than with the true ones?

    python -m research.adaptive_server docs/results/adaptive-server.json
    python -m research.adaptive_server docs/results/adaptive-server.json --lessons 55
    python -m research.adaptive_server docs/results/adaptive-server.json --world maze --lessons 55
    FEDSE_MODELS=FOLDER python -m research.adaptive_server docs/results/adaptive-server.json \
        --config fedse/desk.toml --world books --lessons 24 --codes 16 --only "as begun"

A server that is not honest sends the same adapter in all steps, so that only the noise differs from
one sum to the next and the mean of the sums has the least of it. It can choose among adapters: one
that nothing was learned by, ones at random, one that learned or unlearned the server's own lessons.
Attackers and figures are those of research/audit_steps.py; the noise is for an epsilon of 8 over
all steps. The worst of the adapters is what such a server finds out.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedse.agent.loaded import prepare_torch
from fedse.config.file import load_config
from fedse.config.training import TrainSection
from fedse.privacy.accountant import Charge, noise_for
from fedse.privacy.attacks import attack_bounds
from fedse.secure_sum.private_step import StepForm
from fedse.seeds import seed_of
from fedse.store.files import write_whole
from fedse.types import Adapter
from research.audit_steps import CODES, EPSILON, figures, subjects_of, walked
from research.leakage_table import CONFIG, SITES
from research.measure_leakage import World
from research.private_step import DELTA, RULE, Federation

SERVERS_LESSONS = 3
"""The pool that the attackers of research/audit_steps.py know."""
PASSES = TrainSection(lr=2e-3, batch=10, epochs=5)


def learned(federation: Federation) -> Adapter:
    """Fitted to the server's own lessons."""
    world, pool = federation.world, federation.pools[SERVERS_LESSONS]
    return world.fit(pool, PASSES, seed_of(world.seed, "server"))


def unlearned(federation: Federation) -> Adapter:
    """As far from the start as `learned`, the other way."""
    start, there = federation.world.start, learned(federation)
    return Adapter(start.spec, 2 * start.vector - there.vector)


def at_random(federation: Federation, times: float) -> Adapter:
    """So many times as far from the start as `learned`, in any direction."""
    start, there = federation.world.start, learned(federation)
    noise = np.random.default_rng(seed_of(federation.world.seed, "random")).normal(
        size=start.vector.shape
    )
    length = times * np.linalg.norm(there.vector - start.vector) / np.linalg.norm(noise)
    return Adapter(start.spec, (start.vector + noise * length).astype(np.float32))


SENT: Mapping[str, Callable[[Federation], Adapter]] = {
    "as begun": lambda federation: federation.world.start,
    "learned": learned,
    "unlearned": unlearned,
    "at random": lambda federation: at_random(federation, 1.0),
    "at random, four times as far": lambda federation: at_random(federation, 4.0),
}


def found_with(federation: Federation, sent: str, steps: int, codes: int) -> dict[str, Any]:
    """What the server finds out if it sends this adapter in all steps."""
    world, began = federation.world, time.process_time()
    noise = noise_for(EPSILON, DELTA, rate=1.0, steps=steps)
    # The mean of so many sums of the same: one sum, and noise that is shorter by the root.
    form = StepForm(RULE.clip, RULE.units, noise / sqrt(steps), SITES)
    true, world.start = world.start, SENT[sent](federation)
    seen = walked(federation, subjects_of(federation, codes), form, 1)
    world.start = true
    bounds = attack_bounds([Charge("", 0, "episode", 1.0, noise, steps)])
    return {
        "sent": sent,
        "seed": world.seed,
        **figures(seen, form, seed=world.seed),
        "bound": {"auc": round(bounds.auc, 4), "found": round(bounds.found, 4)},
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--world", default="textcraft", help="a client of the experiment")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--codes", type=int, default=CODES)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--only", nargs="+", choices=list(SENT), default=list(SENT))
    given = parser.parse_args()
    prepare_torch(1)
    known = json.loads(given.out.read_text()) if given.out.is_file() else []
    config = load_config(given.config)
    own = {name: getattr(given, name) for name in ("world", "lessons", "codes", "steps")}
    own["base"] = config.model.base
    for seed in given.seeds:
        world = World(config, given.world, given.lessons, seed=seed)
        with TemporaryDirectory() as folder:
            federation = Federation(world, Path(folder))
        for sent in given.only:
            if any(row.items() >= {**own, "seed": seed, "sent": sent}.items() for row in known):
                continue
            known.append({**own, **found_with(federation, sent, given.steps, given.codes)})
            write_whole(given.out, f"{json.dumps(known, indent=1)}\n".encode())
            print(json.dumps(known[-1], indent=1), flush=True)


if __name__ == "__main__":
    main()
