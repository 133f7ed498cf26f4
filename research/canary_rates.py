"""How often the canary is right, and after how many sessions: simulated outcomes, the real code.

python -m research.canary_rates docs/results/canary.json

Candidates that are 10 points worse, equal, or 10 points better than the present adapter, and
candidates that break tool calls, 1,000 each. Success of the present one is 30 to 90 %; a label
comes for 30 to 100 % of the sessions, late, and complaints come sooner than thanks. Besides: a test
that is repeated every day, and other ways to bet.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from math import log, prod, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedse_serve.canary import Arm, CanarySettings, Seen, Trial
from fedse_serve.evidence import BETS, Evidence

BASES = (0.3, 0.5, 0.7, 0.9)
COVERAGE = (0.3, 1.0)
POINTS = 0.1
BROKEN_CALLS = 0.1
GUARD_RATES = {
    "invalid_tool_calls": 0.02,
    "errors": 0.01,
    "refusals": 0.01,
    "questions": 0.3,
    "too_long": 0.05,
    "too_slow": 0.05,
}
"""How often a session of either adapter shows each of them."""
LATE = {True: 300.0, False: 100.0}
"""The mean number of sessions that begin between a session's end and its label."""
AT_ONCE = 2048
"""Sessions that are drawn together."""
DAYS, DAILY, SHARE, LEVEL = 30, 200, 0.25, 0.05
"""The traffic of the test that is repeated daily: labelled sessions, the canary's share, level."""
Floats = NDArray[np.float64]


class World(NamedTuple):
    """What sessions of each arm are like."""

    success: dict[Arm, float]
    broken_calls: dict[Arm, float]
    coverage: float


class Ended(NamedTuple):
    """How a trial ended, and what it took."""

    verdict: str
    canary: int
    labelled: int
    all: int


def worlds(kind: str, count: int, draw: np.random.Generator) -> Iterator[World]:
    """So many worlds with a candidate of that kind."""
    for number in range(count):
        high = BASES[number % len(BASES)]
        success: dict[str, tuple[float, float]] = {
            "worse": (high, high - POINTS),
            "better": (high - POINTS, high),
        }
        stable, canary = success.get(kind, (high, high))
        calls = GUARD_RATES["invalid_tool_calls"]
        more = BROKEN_CALLS if kind == "breaks tool calls" else 0.0
        yield World(
            {"stable": stable, "canary": canary},
            {"stable": calls, "canary": calls + more},
            float(draw.uniform(*COVERAGE)),
        )


def trial_in(world: World, settings: CanarySettings, draw: np.random.Generator) -> Ended:
    """A whole trial: each session begins at the share that the trial asks for at that time."""
    trial, number, canary = Trial(settings), 0, 0
    arriving: defaultdict[int, list[Seen]] = defaultdict(list)
    labelled = 0
    while True:
        chances = draw.random((AT_ONCE, 3)).tolist()
        shown = {arm: flags_in(world.broken_calls[arm], draw) for arm in world.success}
        waits = draw.exponential(size=AT_ONCE).tolist()
        for at, (in_arm, succeeded, known) in enumerate(chances):
            share = trial.share
            arm: Arm = "canary" if in_arm < share else "stable"
            number, canary = number + 1, canary + (arm == "canary")
            trial.see(Seen(str(number), arm, share, flags=shown[arm][at]))
            if known < world.coverage:
                label = succeeded < world.success[arm]
                seen = Seen(str(number), arm, share, label=label)
                arriving[number + int(waits[at] * LATE[label])].append(seen)
            for seen in arriving.pop(number, ()):
                labelled += seen.arm == "canary"
                trial.see(seen)
            if trial.verdict != "go on":
                return Ended(trial.verdict, canary, labelled, number)


def flags_in(broken_calls: float, draw: np.random.Generator) -> list[dict[str, bool]]:
    """The flags of so many sessions as are drawn together."""
    rates = {**GUARD_RATES, "invalid_tool_calls": broken_calls}
    ways = [dict(zip(rates, way, strict=True)) for way in product([False, True], repeat=6)]
    chances = [prod(rates[k] if v else 1 - rates[k] for k, v in way.items()) for way in ways]
    # Shared, not copied: it saves minutes.
    return [ways[index] for index in draw.choice(len(ways), AT_ONCE, p=chances).tolist()]


def figures_of(ended: list[Ended], verdict: str) -> dict[str, Any]:
    """How often each verdict, and what the given one took: median and 95 %."""
    found: dict[str, Any] = {
        "candidates": len(ended),
        "verdicts": {
            name: sum(one.verdict == name for one in ended)
            for name in ("roll back", "promote", "withdraw")
        },
    }
    those = [one for one in ended if one.verdict == verdict]
    for name, values in (
        ("labelled canary sessions", [one.labelled for one in those]),
        ("canary sessions", [one.canary for one in those]),
        ("all sessions", [one.all for one in those]),
    ):
        if values:
            median, most = np.quantile(values, [0.5, 0.95]).round().astype(int).tolist()
            found[f"{name} until {verdict}"] = {"median": median, "95 %": most}
    return found


def repeated_test(count: int, draw: np.random.Generator) -> dict[str, Any]:
    """Equal adapters: how many a daily one-sided z-test rolls back, and how many the evidence."""
    alarms = {"daily z-test": 0, "evidence": 0}
    least = NormalDist().inv_cdf(1 - LEVEL)
    for number in range(count):
        rate = BASES[number % len(BASES)]
        canary = draw.random((DAYS, DAILY)) < SHARE
        won = draw.random((DAYS, DAILY)) < rate
        alarms["daily z-test"] += bool((z_of(canary, won) >= least).any())
        evidence, highest = Evidence(0.0), 0.0
        for in_canary, outcome in zip(canary.ravel().tolist(), won.ravel().tolist(), strict=True):
            evidence.add(outcome, first=not in_canary)
            highest = max(highest, evidence.value)
        alarms["evidence"] += highest >= 1 / LEVEL
    return {"candidates": count, "days": DAYS, "labelled_per_day": DAILY, "rolled_back": alarms}


def z_of(canary: NDArray[np.bool_], won: NDArray[np.bool_]) -> Floats:
    """The pooled z of "the canary is worse" at the end of each day."""
    n1, s1 = canary.sum(1).cumsum(), (canary & won).sum(1).cumsum()
    n2, s2 = (~canary).sum(1).cumsum(), (~canary & won).sum(1).cumsum()
    pooled = (s1 + s2) / (n1 + n2)
    spread = np.sqrt(np.maximum(pooled * (1 - pooled) * (1 / n1 + 1 / n2), 1e-12))
    return np.asarray((s2 / n2 - s1 / n1) / spread)


def ways_to_bet(count: int, draw: np.random.Generator) -> dict[str, Any]:
    """One canary session against 19, 10 points below 50 %: blocks until 1 / 0.025."""
    blocks = 4000
    stable = draw.binomial(19, 0.5, (blocks, count)) / 19
    gains = stable - (draw.random((blocks, count)) < 0.5 - POINTS)
    ways: dict[str, Callable[[Floats], Floats]] = {
        "mixture": mixture,
        "plug-in Kelly": plug_in,
        "online Newton step": newton,
    }
    found = {}
    for name, way in ways.items():
        reached = way(gains) >= 1 / 0.025
        until = np.where(reached.any(0), reached.argmax(0) + 1, np.inf)
        median, most, nearly_all = np.quantile(until, [0.5, 0.95, 0.99]).round().tolist()
        found[name] = {"median": median, "95 %": most, "99 %": nearly_all}
    return found


def mixture(gains: Floats) -> Floats:
    return np.asarray(
        np.mean([np.cumprod(1 + bet * gains * 19 / 20, axis=0) for bet in BETS], axis=0)
    )


def plug_in(gains: Floats) -> Floats:
    """The bet that would have been best for the mean and the square of the gains so far."""
    total, squares = np.zeros(gains.shape[1]), np.zeros(gains.shape[1])
    fortune, fortunes = np.ones(gains.shape[1]), []
    for number, gain in enumerate(gains):
        # Ten blocks of no gain and variance 1/4 come before the first.
        bet = np.clip(total / (squares + 10 * 0.25), 0, 0.9) if number else np.zeros_like(total)
        fortune = fortune * (1 + bet * gain)
        fortunes.append(fortune)
        total, squares = total + gain, squares + gain**2
    return np.array(fortunes)


def newton(gains: Floats) -> Floats:
    """Bets by the online Newton step, at most 1/2 (Cutkosky and Orabona 2018)."""
    bet, steepness = np.zeros(gains.shape[1]), np.ones(gains.shape[1])
    fortune, fortunes = np.ones(gains.shape[1]), []
    for gain in gains:
        fortune = fortune * (1 + bet * gain)
        fortunes.append(fortune)
        slope = -gain / (1 + bet * gain)
        steepness = steepness + slope**2
        bet = np.clip(bet - 2 / (2 - log(3)) * slope / steepness, 0, 0.5)
    return np.array(fortunes)


def upper_bound(alarms: int, of: int) -> float:
    """Wilson's 95 % upper bound on a rate."""
    z, rate = 1.96, alarms / of
    middle, spread = rate + z * z / (2 * of), sqrt(rate * (1 - rate) / of + (z / (2 * of)) ** 2)
    return (middle + z * spread) / (1 + z * z / of)


WANTED = {
    "worse": "roll back",
    "equal": "promote",
    "better": "promote",
    "breaks tool calls": "roll back",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--candidates", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    settings, draw = CanarySettings(), np.random.default_rng(args.seed)
    found: dict[str, Any] = {"settings": settings.model_dump(mode="json"), "bets": BETS}
    for kind, verdict in WANTED.items():
        began = time.process_time()
        ended = [trial_in(world, settings, draw) for world in worlds(kind, args.candidates, draw)]
        found[kind] = figures_of(ended, verdict)
        found[kind]["cpu_seconds"] = round(time.process_time() - began, 1)
        print(kind, found[kind], flush=True)
    rolled_back = found["equal"]["verdicts"]["roll back"]
    found["equal"]["rolled_back_at_most"] = round(upper_bound(rolled_back, args.candidates), 4)
    found["repeated test of equals"] = repeated_test(args.candidates, draw)
    found["blocks until rolled back, by way to bet"] = ways_to_bet(args.candidates, draw)
    args.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
