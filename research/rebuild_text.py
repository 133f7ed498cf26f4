"""Can planted secrets be written down from an adapter alone, without a list of candidates?

    python -m research.rebuild_text docs/results/rebuilt.json --seeds 1

The attacker has the adapter that was sent and the one that came back, knows the episode and the
sentence before a secret, and writes the secret symbol by symbol: of all beginnings so far it keeps
those that the reply made most likely, compared with what was sent. `copied` is the control, a
reply that learned from nothing but the one secret, many times over: most of it must be found.
`actions` is one site's reply as published, `steps` and `steps-8` what 36 private steps of five
sites have led to, without and with noise. A symbol is right by chance in one of sixteen cases.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedse.agent.loaded import prepare_torch
from fedse.audit.canary import LENGTH, SYMBOLS, Canary, make_canaries, parted_tokens
from fedse.config.file import load_config
from fedse.config.training import TrainSection
from fedse.privacy.accountant import noise_for
from fedse.secure_sum.private_step import StepForm
from fedse.seeds import seed_of
from fedse.store.files import write_whole
from fedse.train.probe import AdapterProbe
from fedse.types import Adapter, Trajectory
from research.leakage_table import ARMS, CONFIG, SITES
from research.measure_leakage import World
from research.private_step import DELTA, PUBLISHED, RULE, STEPS, Federation

CANARIES = 8
KEPT = 32
"""Beginnings of a secret that are followed up."""
CONTROL = "copied"
COPIED = TrainSection(lr=2e-3, batch=1, epochs=200)
ORDER = (CONTROL, PUBLISHED, "steps", "steps-8")

Losses = Callable[[Sequence[str]], NDArray[np.float64]]
"""Of each text; the lowest is the likeliest."""


def replies(
    name: str, federation: Federation, planted: list[Trajectory], steps: int
) -> list[Adapter]:
    """For each planted secret the adapter in which it is looked for."""
    world, seed = federation.world, seed_of(federation.world.seed, "site", 0)
    if name == CONTROL:
        return [world.fit([one], COPIED, seed) for one in planted]
    lessons = [*federation.pools[0], *planted]
    if name == PUBLISHED:
        return [world.fit(lessons, ARMS[name].train, seed)] * len(planted)
    epsilon = STEPS[name]
    noise = 0.0 if epsilon is None else noise_for(epsilon, DELTA, rate=1.0, steps=steps)
    form = StepForm(RULE.clip, RULE.units, noise, SITES)
    pools = dict(enumerate([lessons, *federation.pools[1:]]))
    *_, last = federation.steps(form, steps, pools)
    return [last.after] * len(planted)


def rebuilt(losses: Losses) -> str:
    """The secret as the attacker writes it."""
    kept = [""]
    for _ in range(LENGTH):
        longer = [f"{text}{symbol}" for text in kept for symbol in SYMBOLS]
        order = np.argsort(losses(longer), kind="stable")
        kept = [longer[place] for place in order[:KEPT].tolist()]
    return kept[0]


def losses_of(canary: Canary, world: World, probe: AdapterProbe, reply: Adapter) -> Losses:
    """Of each beginning of the secret: how much less likely the reply made it."""

    def losses(texts: Sequence[str]) -> NDArray[np.float64]:
        rows = [world.tokenized(ARMS[PUBLISHED], canary.episode(text)).token_ids for text in texts]
        head, tails = parted_tokens(rows)
        after, before = (probe.tail_losses(one, head, tails) for one in (reply, world.start))
        return np.asarray(after - before)

    return losses


def cell(name: str, federation: Federation, steps: int) -> dict[str, Any]:
    """One arm with one seed."""
    world, began = federation.world, time.process_time()
    canaries = make_canaries(federation.pools[0], "typed", CANARIES, seed=world.seed)
    planted = [world.tokenized(ARMS[PUBLISHED], one.episode()) for one in canaries]
    probe = AdapterProbe(world.trainer, context=world.context)
    adapters = replies(name, federation, planted, steps)
    found = [
        rebuilt(losses_of(one, world, probe, reply))
        for one, reply in zip(canaries, adapters, strict=True)
    ]
    pairs = [(one.code, text) for one, text in zip(canaries, found, strict=True)]
    right = sum(a == b for code, text in pairs for a, b in zip(code, text, strict=True))
    return {
        "arm": name,
        "seed": world.seed,
        "steps": steps,
        "symbols right": [right, LENGTH * len(pairs)],
        "whole": [sum(code == text for code, text in pairs), len(pairs)],
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--arms", nargs="+", choices=ORDER, default=ORDER)
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--steps", type=int, default=36)
    given = parser.parse_args()
    prepare_torch(1)
    known = json.loads(given.out.read_text()) if given.out.is_file() else []
    own = {name: getattr(given, name) for name in ("lessons", "steps")}
    for seed in given.seeds:
        world = World(load_config(CONFIG), "textcraft", given.lessons, seed=seed)
        with TemporaryDirectory() as folder:
            federation = Federation(world, Path(folder))
        for name in given.arms:
            if any(row.items() >= {**own, "seed": seed, "arm": name}.items() for row in known):
                continue
            known.append({**own, **cell(name, federation, given.steps)})
            write_whole(given.out, f"{json.dumps(known, indent=1)}\n".encode())
            print(json.dumps(known[-1]), flush=True)


if __name__ == "__main__":
    main()
