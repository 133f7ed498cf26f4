"""Does it pay to tell roles apart, and to learn together? Three workflows, the same games.

    python -m research.role_arms docs/results/roles.json --out RUNS --kinds voting --steps 60

The experiments of examples/workflows with equal optimiser steps in every arm: all roles share one
policy, each role has a block of its own, or one agent without roles does all the work, all three
harbours together; and each harbour alone, with a shared policy. All are tested with signals that
were never flown in any harbour. What is done is not done again.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from fedse.api.experiment import load_experiment
from fedse.api.running import run
from fedse.config.schema import Config
from fedse.stats.paired import Difference, holm, paired_difference
from research.verdicts import games_of

WORKFLOWS = Path(__file__).parents[1] / "examples" / "workflows"
SHARED, ISOLATED, ONE = "shared", "isolated", "one agent"
TOGETHER, ALONE = "together", "alone"
KINDS: Mapping[str, tuple[str, ...]] = {
    "voting": (SHARED, ONE),
    "evaluator_optimiser": (SHARED, ISOLATED, ONE),
    "orchestrator_workers": (SHARED, ISOLATED, ONE),
}
"""Workflow -> its policies; voters are one role, so theirs cannot be told apart."""
Arm = tuple[str, str]
"""Policy, and together or alone."""


def arms_of(kind: str) -> list[Arm]:
    return [*((policy, TOGETHER) for policy in KINDS[kind]), (SHARED, ALONE)]


def read_settings(given: Sequence[str]) -> dict[str, Any]:
    """Those of a command line, each written as KEY=JSON."""
    return {key: json.loads(value) for key, _, value in (one.partition("=") for one in given)}


def workflow(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The experiment of examples/workflows with these settings, not checked yet."""
    raw = load_experiment(WORKFLOWS / f"{kind}.toml")[0].model_dump(mode="json")
    for key, value in settings.items():
        section, _, name = key.partition(".")
        raw[section][name] = value
    if "train.steps" in settings:
        raw["train"]["epochs"] = None
    return raw


def experiment(kind: str, policy: str, settings: Mapping[str, Any]) -> Config:
    """The workflow under one policy, with these settings."""
    raw = workflow(kind, settings)
    if policy == ONE:
        raw["roles"] = {}
        for client in raw["clients"]:
            client["options"]["roles"] = False
    else:
        raw["roles"]["policy"] = policy
    return Config.model_validate(raw)


def played(kind: str, arm: Arm, settings: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """The games of one arm after the last round, by harbour, and what they cost."""
    policy, way = arm
    config, began = experiment(kind, policy, settings), time.process_time()
    only = [None] if way == TOGETHER else [client.name for client in config.clients]
    games: dict[str, str] = {}
    for one in only:
        games |= games_of(run(config, only=one, out=out).path)
    return {"games": games, "cpu_seconds": round(time.process_time() - began, 1)}


def blocks(seeds: Mapping[str, Any]) -> list[list[bool]]:
    """The games of an arm, seed by seed."""
    ordered = sorted(seeds, key=int)
    return [
        [bit == "1" for _, games in sorted(seeds[seed]["games"].items()) for bit in games]
        for seed in ordered
    ]


def questions(kind: str) -> Iterator[tuple[Arm, Arm]]:
    """What is asked: together or alone, and one policy or another."""
    policies = KINDS[kind]
    yield (SHARED, TOGETHER), (SHARED, ALONE)
    yield from (((policy, TOGETHER), (ONE, TOGETHER)) for policy in policies if policy != ONE)
    if ISOLATED in policies:
        yield (ISOLATED, TOGETHER), (SHARED, TOGETHER)


def answered(kind: str, arms: Mapping[str, Any]) -> dict[str, Any]:
    """Success of every arm whose seeds are all there, and the answers."""
    rates = {}
    for name, seeds in arms.items():
        won = [bit for games in blocks(seeds) for bit in games]
        rates[name] = [sum(won), len(won)]
    found: dict[str, Difference] = {}
    for one, other in questions(kind):
        a, b = arms.get(" ".join(one), {}), arms.get(" ".join(other), {})
        if a and a.keys() == b.keys():
            difference = paired_difference(blocks(a), blocks(b), seed=0)
            found[f"{' '.join(one)} minus {' '.join(other)}"] = difference
    corrected = holm({name: one.p for name, one in found.items()})
    told = {name: {**one._asdict(), "p": corrected[name]} for name, one in found.items()}
    return {"won": rates, "differences": told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--policies", nargs="+", default=[SHARED, ISOLATED, ONE])
    parser.add_argument("--steps", type=int, default=100, help="of each round")
    parser.add_argument("--set", action="append", default=[], help="KEY=JSON")
    given = parser.parse_args()
    sys.path.append(str(WORKFLOWS))
    found = json.loads(given.result.read_text()) if given.result.is_file() else {"arms": {}}
    changed = read_settings(given.set)
    for seed, kind in product(given.seeds, given.kinds):
        for arm in arms_of(kind):
            done = found["arms"].setdefault(kind, {}).setdefault(" ".join(arm), {})
            if str(seed) in done or arm[0] not in given.policies:
                continue
            settings = {"run.seed": seed, "train.steps": given.steps, **changed}
            done[str(seed)] = played(kind, arm, settings, given.out)
            found["answers"] = {k: answered(k, arms) for k, arms in found["arms"].items()}
            found.setdefault("steps", {})[kind] = given.steps
            given.result.write_text(json.dumps(found, indent=1) + "\n")
            won = "".join(done[str(seed)]["games"].values())
            cpu = done[str(seed)]["cpu_seconds"]
            print(kind, *arm, seed, f"{won.count('1')} of {len(won)}, {cpu} CPU-s", flush=True)


if __name__ == "__main__":
    main()
