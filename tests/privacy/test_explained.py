"""The figures that an officer reads are those that were measured."""

import json
from pathlib import Path
from statistics import fmean, median

import pytest

from fedse.privacy.accountant import Charge, noise_for
from fedse.privacy.attacks import attack_bounds
from fedse.privacy.explained import NEVER, PROTECTIONS
from tests.needs import needs

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SECRETS, PERSONAL, SUM, NOISE, _ = PROTECTIONS


def found(name: str):
    return json.loads((RESULTS / f"{name}.json").read_text())


def by_attack(arm: str) -> dict[str, float]:
    """Each attack's AUC, on average over the seeds."""
    rows = [row for row in found("leakage-table")["rows"] if row["arm"] == arm]
    told = [(one["attack"], one["auc"]["value"]) for row in rows for one in row["audit"]["attacks"]]
    return {name: fmean(auc for attack, auc in told if attack == name) for name, _ in told}


def test_what_redaction_finds_and_takes_by_mistake():
    facts = found("redaction")
    secrets, personal = facts["secrets"]["held out"]["all"], facts["personal"]["all"]
    assert f"{secrets['recall']:.3f} of {secrets['of']:,} secrets" in SECRETS.bounds
    assert f"{personal['recall']:.3f} of {personal['of']:,} such" in PERSONAL.bounds
    alarms = facts["false_alarms"]["secrets and personal"]
    documentation = alarms["our documentation"]
    assert SECRETS.cost.startswith(f"{documentation['per_1000']:.2f} false alarms in 1,000")
    assert alarms["the five environments"]["false"] == 0


def test_what_stand_ins_cost():
    arms = found("redaction-training")["arms"]
    made, real = arms["stand-ins"], arms["as it was"]
    assert f"{made['won']} of {made['of']} games" in PERSONAL.cost
    assert f"{made['won']} of {made['of']} games won, {real['won']} without" == PERSONAL.price


def test_what_a_sum_costs_and_what_attacks_find_in_it():
    assert SUM.cost.startswith(f"{found('secure-sum')['ratio']:.2f} times the CPU time")
    of = by_attack("secure-sum")
    known = of.pop("lira")
    # As the results page rounds them, to the second digit.
    assert f"AUC {min(of.values()) - 0.005:.2f} to {max(of.values()):.2f}" in SUM.bounds
    assert f"AUC {known:.2f}" in SUM.lacks


def test_what_noise_cost_where_it_was_measured():
    won = {
        arm: sum(row["won"][0] for row in found("leakage-table")["rows"] if row["arm"] == arm)
        for arm in ("dp-8", "actions", "before")
    }
    told = f"{won['dp-8']} of 600 games with epsilon 8, {won['actions']} without noise, "
    assert f"{told}{won['before']} before training" in NOISE.cost
    plain = max(by_attack("default-rate").values())
    assert f"AUC {plain:.2f} with the default settings" in NEVER[0]


def test_what_shared_noise_cost():
    facts = found("private-step")
    won = facts["summary"]["won"]
    (made, of), (without, _), (before, _) = won["steps-8"], won["steps"], won["before"]
    told = f"{without} without noise, {before} before training"
    assert f"{facts['settings']['steps']} private steps of five sites with " in NOISE.cost
    assert f"{made} of {of} games with epsilon 8, {told}" in NOISE.cost
    assert NOISE.price.startswith(f"{made} of {of} games, {told}")
    cpu = {(row["arm"], row["seed"]): row["cpu_seconds"] for row in facts["rows"]}
    times = median(cpu["steps-8", seed] / cpu["actions", seed] for seed in (1, 2, 3))
    assert f"{times:.0f} times the CPU time" in NOISE.price


@pytest.mark.parametrize(
    ("rate", "steps", "told"), [(0.1, 20, "0.74 in 20"), (1.0, 1, "0.88 in private steps")]
)
def test_what_noise_bounds(rate: float, steps: int, told: str):
    needs("dp_accounting")
    noise = noise_for(8.0, 1e-5, rate=rate, steps=steps)
    bounds = attack_bounds([Charge("run", 1, "episode", rate, noise, steps)])
    assert f"{bounds.auc:.2f}" == told[:4]
    assert told in NOISE.bounds
