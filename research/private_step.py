"""What private steps keep of the gain: five sites with 200 lessons each, in held-out games.

    python -m research.private_step docs/results/private-step.json --cells runs/private-step
    python -m research.private_step docs/results/private-step-20.json --cells runs/step-20 \
        --sites 20 --arms before steps steps-3 --seeds 1

Every arm and seed is a file in the folder of --cells, and what is there is not measured again.
`actions` is one round as published, without protection: AdamW, two passes, the mean of the sites.
The other arms take full-batch steps as sites and server do with [step]: the same functions, without
the transport and the masks, which cancel. `steps` has no noise; `steps-8` has as much as keeps all
steps together within an epsilon of 8, against the server and the sites that may be corrupt, while
as many are away as may be: one and one of five. All are in the sum here, so its noise is longer
than that, by a factor of 1.29 for five sites.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from fedse.agent.loaded import prepare_torch
from fedse.aggregate.factors import learned_part, travelling_spec, whole_adapter
from fedse.config.file import load_config
from fedse.config.private_step import StepSection
from fedse.config.training import TrainSection
from fedse.course import GradientSum, StepCourse
from fedse.privacy.accountant import noise_for
from fedse.privacy.ratio import honest_left
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.private_step import StepForm, encode_step, take_step
from fedse.seeds import seed_of
from fedse.store.files import write_whole
from fedse.train.step_gradient import step_gradient
from fedse.types import Adapter, AdapterSpec, Trajectory, digest_of
from research.leakage_table import ARMS, CONFIG, SITES, won
from research.measure_leakage import World, redaction

BEFORE, PUBLISHED = "before", "actions"
STEPS = {"steps": None, "steps-8": 8.0, "steps-3": 3.0}
"""By arm, the epsilon of all steps together; None = no noise."""
ORDER = (BEFORE, PUBLISHED, *STEPS)
DELTA = 1e-5
# Chosen in a study on seed 1, before seeds 2 and 3 were looked at.
RULE = StepSection(units=1000, clip=0.1, lr=2.5)

Facts = dict[str, Any]


class Taken(NamedTuple):
    """A private step, and the sum and the message of each site in it."""

    before: Adapter
    after: Adapter
    sums: list[GradientSum]
    sent: list[Whole]


class Federation:
    """Sites with lessons of their own, and the adapter they have in common."""

    def __init__(self, world: World, folder: Path, sites: int = SITES) -> None:
        if len(world.pool(sites)) < len(world.pool(0)):
            raise ValueError(f"too few games for {sites} sites: {len(world.games)} in all")
        self.world = world
        arm = ARMS[PUBLISHED]
        redact = redaction(arm, folder, world.encoder)
        self.pools = [
            [redact(world.tokenized(arm, lesson)) for lesson in world.pool(site)]
            for site in range(sites)
        ]
        # No site has them: what is left of the games.
        self.held_out = [redact(world.tokenized(arm, one)) for one in world.pool(sites)]
        learned = world.config.model_copy(update={"train": TrainSection(factors="b")})
        self.part: AdapterSpec = travelling_spec(world.spec, learned)

    def gradient(self, at: Adapter, lessons: Sequence[Trajectory], form: StepForm) -> GradientSum:
        given = (self.world.trainer, at, lessons, course_of(lessons, form), self.part)
        return step_gradient(*given, context=self.world.context)

    def loss(self, at: Adapter) -> float:
        """On lessons that no site has."""
        return round(
            self.gradient(at, self.held_out, StepForm(1.0, 1, 0.0, len(self.pools))).loss, 4
        )

    def steps(
        self, form: StepForm, count: int, pools: Mapping[int, Sequence[Trajectory]]
    ) -> Iterator[Taken]:
        """So many private steps, one after another, of these sites with these lessons."""
        at, velocity = self.world.start, np.zeros(self.part.size, dtype=np.float32)
        for number in range(1, count + 1):
            sums = [self.gradient(at, pool, form) for pool in pools.values()]
            sent = [
                encode_step(one.total, form, secret(self.world.seed, number, site))
                for site, one in zip(pools, sums, strict=True)
            ]
            total: Whole = np.add.reduce(sent, dtype=np.uint32)
            start, before = learned_part(at, self.part).vector, at
            end, velocity = take_step(start, velocity, total, form, RULE)
            at = whole_adapter(Adapter(self.part, end), at)
            yield Taken(before, at, sums, sent)

    def walked(self, form: StepForm, steps: int) -> tuple[Adapter, list[Facts]]:
        """The adapter after so many private steps, and what is known of each."""
        at, told, began = self.world.start, list[Facts](), time.process_time()
        for step in self.steps(form, steps, dict(enumerate(self.pools))):
            at = step.after
            plain = sum(one.total for one in step.sums) * (form.unit / (form.clip * form.units))
            told.append(
                {
                    "loss": round(float(np.mean([one.loss for one in step.sums])), 4),
                    "signal": round(float(np.linalg.norm(plain)), 4),
                    "cpu_seconds": round(time.process_time() - began, 1),
                }
            )
            began = time.process_time()
        return at, told


def course_of(lessons: Sequence[Trajectory], form: StepForm) -> StepCourse:
    """Every lesson is a unit."""
    return StepCourse(tuple((place,) for place in range(len(lessons))), form.clip, form.unit)


def secret(seed: int, step: int, site: int) -> bytes:
    """Of a noise that anybody can make again."""
    return bytes.fromhex(digest_of(["measured", seed, step, site]))


def cell(name: str, federation: Federation, steps: int, games: int) -> Facts:
    """One arm with one seed."""
    world, began, facts = federation.world, time.process_time(), Facts()
    if name == BEFORE:
        adapter = world.start
    elif name == PUBLISHED:
        fits = [
            world.fit(pool, ARMS[name].train, seed_of(world.seed, "site", site))
            for site, pool in enumerate(federation.pools)
        ]
        adapter = world.mean(fits)
    else:
        epsilon = STEPS[name]
        noise = 0.0 if epsilon is None else noise_for(epsilon, DELTA, rate=1.0, steps=steps)
        sites = len(federation.pools)
        form = StepForm(RULE.clip, RULE.units * sites // SITES, noise, sites)
        adapter, facts["steps"] = federation.walked(form, steps)
        facts |= {"epsilon": epsilon, "noise": noise, "honest": honest_left(form.members)}
        facts["noise of a step"] = round(form.spread * federation.part.size**0.5 / form.units, 4)
    learning = round(time.process_time() - began, 1)
    facts |= {"arm": name, "seed": world.seed, "held-out loss": federation.loss(adapter)}
    return {**facts, "won": won(world, adapter, games), "cpu_seconds": learning}


def summary(rows: Sequence[Facts]) -> Facts:
    """Games won of all that were played, by arm, and the share of the gain without noise."""
    totals = {name: [r["won"] for r in rows if r["arm"] == name] for name in ORDER}
    shown = {name: [sum(one[i] for one in own) for i in (0, 1)] for name, own in totals.items()}
    rates = {name: wins / played for name, (wins, played) in shown.items() if played}
    found: Facts = {"won": {name: own for name, own in shown.items() if own[1]}}
    if {BEFORE, "steps"} <= set(rates) and rates["steps"] != rates[BEFORE]:
        gain = rates["steps"] - rates[BEFORE]
        shares = {name: round((rates[name] - rates[BEFORE]) / gain, 3) for name in rates}
        found["share of the gain of steps without noise"] = shares
    return found


def collected(folder: Path, settings: Mapping[str, Any]) -> Facts:
    """All cells that are there, in the order of the arms."""
    cells = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")]
    rows = [one for one in cells if one["settings"] == settings]
    rows.sort(key=lambda one: (ORDER.index(one["arm"]), one["seed"]))
    return {"settings": settings, "summary": summary(rows), "rows": rows}


def measure(given: argparse.Namespace, settings: Mapping[str, Any]) -> None:
    """Every cell that is missing is measured, and the result is written after each."""
    config = load_config(CONFIG)
    given.cells.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        federation: Federation | None = None
        for name in given.arms:
            file = given.cells / f"{name}-{seed}.json"
            if file.is_file() and json.loads(file.read_text())["settings"] == settings:
                continue
            if federation is None:
                pools = given.sites + 1
                world = World(config, "textcraft", given.lessons, seed=seed, pools=pools)
                with TemporaryDirectory() as folder:
                    federation = Federation(world, Path(folder), given.sites)
            made = {"settings": settings, **cell(name, federation, given.steps, given.games)}
            _write(file, made)
            shown = ("held-out loss", "won", "cpu_seconds")
            print(name, seed, {key: made[key] for key in shown}, flush=True)
            _write(given.out, collected(given.cells, settings))
    _write(given.out, collected(given.cells, settings))


def _write(file: Path, facts: Mapping[str, Any]) -> None:
    write_whole(file, f"{json.dumps(facts, indent=1)}\n".encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cells", type=Path, required=True, help="a folder for finished parts")
    parser.add_argument("--arms", nargs="+", default=ORDER[:4], choices=ORDER)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sites", type=int, default=SITES)
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--games", type=int, default=200)
    given = parser.parse_args()
    prepare_torch(1)
    settings = {size: getattr(given, size) for size in ("sites", "lessons", "steps", "games")}
    measure(given, {**settings, "rule": RULE.model_dump(), "delta": DELTA})


if __name__ == "__main__":
    main()
