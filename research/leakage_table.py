"""What each protection does to what a server can find out, and what it costs: one table.

    python -m research.leakage_table docs/results/leakage-table.json --cells runs/leakage
    python -m research.leakage_table table.json --cells runs/leakage --arms dp-8 dp-3 --seeds 1 2

Every arm and seed is a file in the folder of --cells, and what is there is not measured again. The
result holds all that are there, so several processes can share the work. Five sites learn in one
round from 200 games each of one world. A server attacks the reply of the first of them, or, with a
secure sum, the mean of all five; its success is that of the mean of all five, in held-out games.
All other protections are added to the loss on action tokens, one at a time. The settings are
those of configs/five-worlds.toml, with two passes in every arm, because at the default rate the
small model learns nothing; `default-rate` is the reply with the default [train].
"""

import argparse
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedse.agent.hf import HFPolicy, engine_for
from fedse.agent.loaded import prepare_torch
from fedse.audit.conduct import AuditPlan
from fedse.config.file import load_config
from fedse.config.privacy import PrivacySection
from fedse.config.redaction import RedactSection
from fedse.config.training import TrainSection
from fedse.method.rollout import choose_games, rollout
from fedse.seeds import seed_of
from fedse.store.files import write_whole
from fedse.types import Adapter
from research.measure_leakage import Arm, World, measured, redaction

CONFIG = Path(__file__).parents[1] / "configs" / "five-worlds.toml"
SITES = 5
TRAIN = TrainSection(lr=2e-3, batch=10)
# Two passes at this rate are 20 steps, as many as TRAIN has on the 100 lessons of a half.
RATE = 0.1
FOUND = RedactSection(secrets=True, personal=True)
ARMS = {
    arm.name: arm
    for arm in (
        Arm(name="observations", train=TRAIN, observations=True),
        Arm(name="default-rate"),
        Arm(name="actions", train=TRAIN),
        Arm(name="redaction", train=TRAIN, redact=FOUND),
        Arm(name="own-pattern", train=TRAIN, redact=FOUND, codes=r"door \d+ is ([0-9a-f]{8})\b"),
        *(
            Arm(name=f"dp-{e:g}", train=TRAIN, privacy=PrivacySection(epsilon=e, rate=RATE))
            for e in (8.0, 3.0, 1.0)
        ),
        Arm(name="secure-sum", train=TRAIN, sites=SITES),
    )
}
BEFORE = "before"
"""No arm: the adapter that is sent to the sites, which nothing was learned by."""


def won(world: World, adapter: Adapter, games: int) -> list[int]:
    """How many held-out games were won, and how many were played."""
    settings = world.config.rollout
    policy = HFPolicy(
        engine_for(world.path, world.spec),
        adapter,
        temperature=world.config.eval.temperature,
        context=settings.context,
        new_tokens=settings.new_tokens,
    )
    seed = seed_of(world.seed, "eval")
    chosen = choose_games(world.make().tasks("test"), games, seed=seed)
    played = rollout(chosen, world.make, policy, round=1, batch=settings.batch, seed=seed)
    return [sum(episode.success for episode in played), len(played)]


def cell(name: str, world: World, plan: AuditPlan, games: int) -> dict[str, Any]:
    """One arm with one seed."""
    if name == BEFORE:
        return {"arm": name, "seed": plan.seed, "won": won(world, world.start, games)}
    arm, began = ARMS[name], time.process_time()
    row = measured(arm, world, plan)
    with TemporaryDirectory() as folder:
        redact = redaction(arm, Path(folder), world.encoder)
        merged = world.mean(world.replies(arm, redact, range(SITES)))
    row["won"] = won(world, merged, games)
    return {**row, "cpu_seconds": round(time.process_time() - began, 1)}


def collected(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All cells that are there, in the order of the arms."""
    names = (BEFORE, *ARMS)
    cells = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")]
    cells = [one for one in cells if one["settings"] == settings]
    cells.sort(key=lambda one: (names.index(one["arm"]), one["seed"]))
    return {"settings": settings, "rows": cells}


def measure(given: argparse.Namespace, settings: Mapping[str, Any]) -> None:
    """Every cell that is missing is measured, and the result is written after each."""
    config = load_config(CONFIG)
    given.cells.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        world: World | None = None
        plan = AuditPlan(shadows=given.shadows, canaries=given.canaries, seed=seed)
        for name in given.arms:
            file = given.cells / f"{name}-{seed}.json"
            if file.is_file() and json.loads(file.read_text())["settings"] == settings:
                continue
            world = world or World(config, given.client, given.lessons, seed=seed)
            made = {"settings": settings, **cell(name, world, plan, given.games)}
            _write(file, made)
            print(name, seed, {k: made.get(k) for k in ("auc", "tpr", "bits", "won")}, flush=True)
            _write(given.out, collected(given.cells, settings))
    _write(given.out, collected(given.cells, settings))


def _write(file: Path, facts: Mapping[str, Any]) -> None:
    write_whole(file, f"{json.dumps(facts, indent=1)}\n".encode())


def _known(names: Iterable[str]) -> list[str]:
    return [name for name in (BEFORE, *ARMS) if name in set(names)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cells", type=Path, required=True, help="a folder for finished parts")
    parser.add_argument("--arms", nargs="+", default=[BEFORE, *ARMS], choices=[BEFORE, *ARMS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--client", default="textcraft")
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--shadows", type=int, default=4)
    parser.add_argument("--canaries", type=int, default=8)
    parser.add_argument("--games", type=int, default=200)
    given = parser.parse_args()
    given.arms = _known(given.arms)
    prepare_torch(1)
    sizes = ("client", "lessons", "shadows", "canaries", "games")
    measure(given, {size: getattr(given, size) for size in sizes})


if __name__ == "__main__":
    main()
