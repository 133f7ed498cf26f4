"""Two ways in which agents of several roles go wrong, with what is meant to prevent it off and on.

    python -m research.role_failures docs/results/role-failures.json --out RUNS --seeds 0 1 2

*capture*: a scribe, three times in parallel on one prompt, writes a line of its own words, and a
pilot says one reading; one policy for both. *cliff*: three scouts read one signal, each for itself,
a pilot who sees only their readings says the right one, and all that was said in an episode that
ended well is learned from, what the others read wrongly too; a block for each role, many rounds.
Both are trained in one harbour with `roles.balance` off and on, from the same demonstrations, with
equal steps, and tested with signals that were never flown.
What is done is not done again.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

from fedse.api.running import run
from fedse.config.schema import Config
from fedse.results.best_rounds import best_rounds
from fedse.results.role_alarms import role_alarms
from fedse.results.role_course import role_course, validations_of
from fedse.stats.rates import Rate, change
from fedse.store.run_folder import open_run
from research.role_arms import WORKFLOWS, read_settings, workflow
from research.verdicts import games_of

sys.path.append(str(WORKFLOWS))
import worlds
from signals import reading

HARBOUR = "north"
EPISODES, LATE = 32, 3
"""Games to learn from in a round, and the last rounds that are looked at."""
PARALLEL = 3
WORDS = 6
"""That a scribe writes; no two signals have the same line."""


def logbook(signal: str) -> worlds.Workflow:
    """Scribes write a line each, which decides nothing; a pilot reads the signal."""
    drawn = random.Random(signal)
    line = " ".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=WORDS))
    for thread in range(PARALLEL):
        yield worlds.Ask("scribe", signal, line, thread=thread)
    right = reading(signal.split())
    return (yield worlds.Ask("pilot", signal, right)) == right


def scouts(signal: str) -> worlds.Workflow:
    """Scouts read the signal, each for itself; a pilot who has not seen it says what is right."""
    right, told = reading(signal.split()), []
    for thread in range(PARALLEL):
        told.append((yield worlds.Ask("scout", signal, right, thread=thread)))
    return (yield worlds.Ask("pilot", " , ".join(told), right)) == right


worlds.KINDS |= {
    "logbook": worlds.Kind(logbook, 2, ("scribe", "pilot"), PARALLEL + 1),
    "scouts": worlds.Kind(scouts, 2, ("scout", "pilot"), PARALLEL + 1),
}
FAILURES: Mapping[str, tuple[str, str]] = {
    "capture": ("logbook", "shared"),
    "cliff": ("scouts", "isolated"),
}
"""Failure -> the workflow, and the policy that it threatens."""


def experiment(failure: str, settings: Mapping[str, Any]) -> Config:
    """The workflow as those of examples/workflows, with these settings."""
    kind, policy = FAILURES[failure]
    raw = workflow("voting", settings)
    raw["run"]["name"] = failure
    raw["roles"] |= {"names": list(worlds.KINDS[kind].roles), "policy": policy}
    raw["rollout"] |= {"new_tokens": WORDS + 2, "episodes": EPISODES}
    for client in raw["clients"]:
        client["options"]["kind"] = kind
    return Config.model_validate(raw)


def measured(path: Path) -> dict[str, Any]:
    """The games after the last round, how it went round by round, and what fedse says of it."""
    with closing(open_run(path)) as opened:
        config, results = opened.config, [*opened.results()]
        validations, best = validations_of(opened, results), best_rounds(opened)
    course = role_course(results, config)
    return {
        "games": games_of(path),
        "tested": {
            one.index: sum(site.eval_succeeded for site in one.stats.values()) for one in results
        },
        "played": {
            one.index: sum(site.succeeded for site in one.stats.values()) for one in results
        },
        "share": {
            role: [round(one.share, 2) for one in course if one.role == role]
            for role in config.roles.names
        },
        "loss": {
            role: [round(one.loss or 0.0, 3) for one in course if one.role == role]
            for role in config.roles.names
        },
        "alarms": [alarm.text for alarm in role_alarms(results, config, validations)],
        "best": {block: [index, round(rate.value, 3)] for block, (index, rate) in best.items()},
    }


def compared(arms: Mapping[str, Any]) -> dict[str, Any]:
    """Games won while exploring in the last rounds, of all seeds that have both arms."""
    on, off = arms.get("balanced", {}), arms.get("unbalanced", {})
    seeds = sorted(on.keys() & off.keys())
    if not seeds:
        return {}
    before, after = (late([arm[seed] for seed in seeds]) for arm in (off, on))
    low, high = change(before, after)
    points = round(after.value - before.value, 3)
    gained = {"points": points, "low": round(low, 3), "high": round(high, 3)}
    return {"seeds": seeds, "unbalanced": before, "balanced": after, **gained}


def late(runs: Sequence[Mapping[str, Any]]) -> Rate:
    """What was won of the games to learn from in the last rounds of these runs."""
    won = [number for one in runs for number in [*one["played"].values()][-LATE:]]
    return Rate(sum(won), len(won) * EPISODES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--failures", nargs="+", default=list(FAILURES))
    parser.add_argument("--set", action="append", default=[], help="KEY=JSON")
    given = parser.parse_args()
    found = json.loads(given.result.read_text()) if given.result.is_file() else {}
    changed = read_settings(given.set)
    for seed, failure, balance in product(given.seeds, given.failures, (False, True)):
        arms = found.setdefault(failure, {"arms": {}, "set": changed})
        done = arms["arms"].setdefault("balanced" if balance else "unbalanced", {})
        if str(seed) in done:
            continue
        began = time.process_time()
        settings = {"run.seed": seed, "roles.balance": balance, **changed}
        done[str(seed)] = measured(
            run(experiment(failure, settings), only=HARBOUR, out=given.out).path
        )
        done[str(seed)]["cpu_seconds"] = round(time.process_time() - began, 1)
        arms["balanced minus unbalanced"] = compared(arms["arms"])
        given.result.write_text(json.dumps(found, indent=1) + "\n")
        print(failure, balance, seed, done[str(seed)], flush=True)


if __name__ == "__main__":
    main()
