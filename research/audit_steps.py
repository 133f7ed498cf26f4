"""What the sums of all private steps of a run give away about the lessons of one site.

    python -m research.audit_steps docs/results/audit-steps.json --seeds 1 2 3
    python -m research.audit_steps docs/results/audit-steps.json --world maze --lessons 55 --seeds 1

Five sites with 200 lessons each, as in research/private_step.py, with noise for an epsilon of 8.
One site is away in every step, so the noise in the sum is the least that the promise allows. Two
attackers look at the sums of all steps together:

`knows the others`: the server with a corrupt site, and every lesson but the one it asks about. Its
score is the exact likelihood ratio, so no attack on these sums does better.

`knows the sum`: the server alone, with lessons of its own from the same world. It takes the sum of
the unknown lessons as normal, with the mean and the covariance of its own lessons.

Both need inner products only. So besides the noise of the run, noise of the same kind is drawn
again, and the figures are means over these draws. The control is the first attacker with a tenth of
the noise: it must find nearly all.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedse.agent.loaded import prepare_torch
from fedse.audit.canary import exposure, make_canaries, random_codes, rank_of_first
from fedse.audit.scores import Scores, auc, auc_estimate, tpr
from fedse.config.file import load_config
from fedse.privacy.accountant import Charge, noise_for
from fedse.privacy.attacks import attack_bounds
from fedse.secure_sum.private_step import StepForm
from fedse.seeds import seed_of
from fedse.store.files import write_whole
from fedse.train.step_gradient import parts_of_sum
from fedse.types import Adapter, Trajectory
from research.leakage_table import ARMS, CONFIG
from research.measure_leakage import World
from research.private_step import DELTA, PUBLISHED, RULE, Federation, course_of

Matrix = NDArray[np.float64]
PRESENT, CORRUPT = (0, 1, 2, 4), 4
"""Sites in the sum; the last one tells the server all it knows. The audited one is 0."""
EPSILON = 8.0
CANARIES, CODES = 4, 64
DRAWS = 200
CONTROL = 0.1
"""Of the noise."""


class Evidence:
    """What the sums say of some hypotheses: a score of each, with noise that is known apart."""

    def __init__(self, count: int) -> None:
        self.signal, self.half = np.zeros(count), np.zeros(count)
        self.noise, self.covariance = np.zeros(count), np.zeros((count, count))

    def add(self, rows: Matrix, half: Matrix, signal: Matrix, noise: Matrix) -> None:
        """One step: `rows` are what the attacker multiplies with what it saw."""
        self.signal += rows @ signal if signal.ndim == 1 else (rows * signal).sum(axis=1)
        self.noise += rows @ noise
        self.half += half
        self.covariance += rows @ rows.T

    def observed(self) -> Matrix:
        return self.signal + self.noise - self.half

    def drawn(self, deviation: float, count: int, *, seed: int) -> Matrix:
        """Scores with other noise, a row per draw."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(values.clip(0))
        normal = np.random.default_rng(seed).normal(size=(count, len(self.signal)))
        drawn: Matrix = self.signal - self.half + deviation * (normal @ root.T)
        return drawn


class Subjects(NamedTuple):
    """Whose lessons are in the sums, and what is asked about."""

    sites: list[list[Trajectory]]
    """Of the sites that are there; the audited one begins with the members."""
    asked: list[Trajectory]
    """Members, then as many lessons of the same world that no site has."""
    own: list[Trajectory]
    """The attacker's."""
    codes: list[list[Trajectory]]
    """Every canary with each of its codes, the true one first."""


def subjects_of(federation: Federation, codes: int = CODES) -> Subjects:
    """Members and the others are a random half each of the same lessons."""
    world, pools = federation.world, federation.pools
    both = [*pools[0], *federation.held_out]
    order = np.random.default_rng(seed_of(world.seed, "members")).permutation(len(both))
    asked = [both[place] for place in order.tolist()]
    members = asked[: len(asked) // 2]
    planted = make_canaries(members, "typed", CANARIES, seed=world.seed)
    variants = []
    for one in planted:
        others = random_codes(codes, seed=seed_of(world.seed, "codes", one.number))
        texts = [one.code, *(code for code in others if code != one.code)][:codes]
        arm = ARMS[PUBLISHED]
        variants.append([world.tokenized(arm, one.episode(text)) for text in texts])
    audited = [*members, *(own[0] for own in variants)]
    sites = [audited, *(pools[site] for site in PRESENT[1:])]
    return Subjects(sites, asked, pools[3], variants)


def gradients(
    federation: Federation, at: Adapter, lessons: Sequence[Trajectory], form: StepForm
) -> Matrix:
    """Each lesson's part of the sum, rounded as in a step."""
    found, world = np.zeros((len(lessons), federation.part.size)), federation.world
    given = (world.trainer, at, lessons, course_of(lessons, form), federation.part)
    for group, whole_U_P, _ in parts_of_sum(*given, context=world.context):
        found[[unit[0] for unit in group]] = whole_U_P.numpy() * form.unit
    return found


class Seen:
    """What the two attackers have gathered."""

    def __init__(self, subjects: Subjects) -> None:
        self.others, self.sum = (Evidence(len(subjects.asked)) for _ in range(2))
        self.codes, self.sum_codes = (
            [Evidence(len(variants)) for variants in subjects.codes] for _ in range(2)
        )
        self.clipped: list[float] = []

    def step(
        self,
        form: StepForm,
        asked: Matrix,
        own: Matrix,
        codes: list[Matrix],
        sent: Sequence[tuple[Any, Any]],
    ) -> None:
        """One step, by each site's sum and its noise."""
        totals, noises = zip(*sent, strict=True)
        unit = form.sigma * form.unit
        self.clipped.append(float((np.linalg.norm(asked, axis=1) > 0.99 * form.clip).mean()))
        # Who knows the corrupt site takes its noise off.
        scale = unit**2 * (len(PRESENT) - 1)
        noise = sum(noises[:-1]) / scale
        lengths = (asked**2).sum(axis=1) / (2 * scale)
        inside = asked * (np.arange(len(asked)) < len(asked) // 2)[:, None]
        self.others.add(asked, lengths, inside / scale, noise)
        for evidence, rows in zip(self.codes, codes, strict=True):
            evidence.add(rows, (rows**2).sum(axis=1) / (2 * scale), rows[0] / scale, noise)
        rest = Unknown(own, unit**2 * len(PRESENT), len(PRESENT) * len(own))
        for evidence, about in zip((self.sum, *self.sum_codes), (asked, *codes), strict=True):
            evidence.add(*rest.weighed(about), sum(totals) - rest.mean_sum, sum(noises))


class Unknown:
    """The sum of so many unknown lessons and noise, as one who has `own` lessons expects it."""

    def __init__(self, own: Matrix, variance: float, units: int) -> None:
        self._mean, self._centred = own.mean(axis=0), own - own.mean(axis=0)
        self._variance, self.mean_sum = variance, units * self._mean
        inner = self._centred @ self._centred.T + np.eye(len(own)) * variance * len(own) / units
        self._solved = np.linalg.solve(inner, self._centred)

    def weighed(self, asked: Matrix) -> tuple[Matrix, Matrix]:
        """What to multiply the sum with, for the likelihood ratio of each lesson, and its half."""
        about = asked - self._mean
        rows = (about - (about @ self._centred.T) @ self._solved) / self._variance
        return rows, (rows * about).sum(axis=1) / 2


def walked(federation: Federation, subjects: Subjects, form: StepForm, steps: int) -> Seen:
    """What is seen in so many private steps."""
    seen = Seen(subjects)
    pools = dict(zip(PRESENT, subjects.sites, strict=True))
    for number, step in enumerate(federation.steps(form, steps, pools), start=1):
        at, totals = step.before, [one.total for one in step.sums]
        plain = [one.astype(np.float64) * form.unit for one in totals]
        noises = [
            (vector - one.astype(np.uint32)).view(np.int32) * form.unit
            for vector, one in zip(step.sent, totals, strict=True)
        ]
        asked, own = (gradients(federation, at, x, form) for x in (subjects.asked, subjects.own))
        codes = [gradients(federation, at, variants, form) for variants in subjects.codes]
        seen.step(form, asked, own, codes, list(zip(plain, noises, strict=True)))
        print("step", number, f"{form.clip} reached by {seen.clipped[-1]:.2f}", flush=True)
    return seen


def parted(scores: Matrix) -> Scores:
    half = len(scores) // 2
    return Scores(scores[:half], scores[half:])


def found(evidence: Evidence, deviation: float, *, seed: int) -> dict[str, Any]:
    """An attacker's figures."""
    drawn = [parted(row) for row in evidence.drawn(deviation, DRAWS, seed=seed)]
    run = auc_estimate(parted(evidence.observed()), seed=seed)
    return {
        "auc": round(float(np.mean([auc(one) for one in drawn])), 4),
        "found at 1 % false alarms": round(float(np.mean([tpr(one) for one in drawn])), 4),
        "auc with the noise of the run": [round(x, 3) for x in (run.value, run.low, run.high)],
    }


def exposed(codes: Sequence[Evidence], deviation: float, *, seed: int) -> float:
    """How many bits of a planted secret the sums tell, on average."""
    bits = [
        exposure(rank_of_first(-row), len(row))
        for one in codes
        for row in one.drawn(deviation, DRAWS, seed=seed)
    ]
    return round(float(np.mean(bits)), 2)


def audited(federation: Federation, steps: int) -> dict[str, Any]:
    """One seed's row."""
    began, seed = time.process_time(), federation.world.seed
    noise = noise_for(EPSILON, DELTA, rate=1.0, steps=steps)
    form = StepForm(RULE.clip, RULE.units, noise, 5)
    seen = walked(federation, subjects_of(federation), form, steps)
    bounds = attack_bounds([Charge("", 0, "episode", 1.0, noise, steps)])
    return {
        "seed": seed,
        **figures(seen, form, seed=seed),
        "bound": {"auc": round(bounds.auc, 4), "found": round(bounds.found, 4)},
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def figures(seen: Seen, form: StepForm, *, seed: int) -> dict[str, Any]:
    """What both attackers found out."""
    unit = form.sigma * form.unit
    # Scores are divided by the variance already, so the noise in them is that much shorter.
    others = 1 / (unit * np.sqrt(len(PRESENT) - 1))
    sums = unit * np.sqrt(len(PRESENT))
    codes = len(seen.codes[0].signal)
    return {
        "knows the others": found(seen.others, others, seed=seed),
        "knows the sum": found(seen.sum, sums, seed=seed),
        "control": found(seen.others, CONTROL * others, seed=seed)["auc"],
        "typed secrets, bits": {
            "knows the others": exposed(seen.codes, others, seed=seed),
            "knows the sum": exposed(seen.sum_codes, sums, seed=seed),
            "by chance": round(float(np.mean([exposure(r + 1, codes) for r in range(codes)])), 2),
        },
        "share at the clip": round(float(np.mean(seen.clipped)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--world", default="textcraft")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--steps", type=int, default=36)
    given = parser.parse_args()
    prepare_torch(1)
    known = json.loads(given.out.read_text()) if given.out.is_file() else []
    own = {name: getattr(given, name) for name in ("world", "lessons", "steps")}
    for seed in given.seeds:
        if any(row.items() >= {**own, "seed": seed}.items() for row in known):
            continue
        world = World(load_config(CONFIG), given.world, given.lessons, seed=seed)
        with TemporaryDirectory() as folder:
            federation = Federation(world, Path(folder))
        known.append({**own, **audited(federation, given.steps)})
        write_whole(given.out, f"{json.dumps(known, indent=1)}\n".encode())
        print(json.dumps(known[-1], indent=1), flush=True)


if __name__ == "__main__":
    main()
