"""Every law in scripts/mutations.toml is one whose breaking the fast tests notice."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.mutations import Mutation, misfit, read_table, try_all, try_mutation

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "mutations.json"
MUTATIONS = read_table()
ROOMS = {
    "adapters", "agent", "aggregate", "audit", "config", "course.py", "drivers", "engine",
    "envs", "federation", "flower", "ledger", "method", "models", "outbound.py", "plugins",
    "privacy", "processes", "redact", "results", "secure_sum", "signed.py", "site", "stats",
    "store", "train", "types.py",
}  # fmt: skip


def test_the_table_is_long_and_of_all_rooms_with_laws():
    assert len({(m.file, m.old) for m in MUTATIONS}) == len(MUTATIONS) >= 30
    assert len({m.law for m in MUTATIONS}) == len(MUTATIONS)
    assert {m.file.partition("/")[0] for m in MUTATIONS} == ROOMS
    assert all(m.old != m.new for m in MUTATIONS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.law)
def test_a_mutation_can_be_made(mutation: Mutation):
    """If this fails, the code has changed: fix `old` in scripts/mutations.toml."""
    assert misfit(mutation) == ""


def test_a_text_that_is_gone_or_there_twice_is_no_kill():
    one = MUTATIONS[0]
    assert misfit(replace(one, old="no such text")).startswith("the old text occurs 0 times")
    assert "expected once" in misfit(replace(one, old="norm"))
    assert misfit(replace(one, tests=("no/test_such.py",))) == "there is no test test_such.py"
    fate = try_mutation(replace(one, old="no such text"), ROOT)
    assert (fate.killed, fate.by) == (False, "the old text occurs 0 times, expected once")


def test_the_recorded_result_is_of_this_table_and_all_were_killed():
    """Made by: python scripts/mutations.py --out docs/results/mutations.json"""
    rows = json.loads(RESULTS.read_text())
    recorded = [(row["law"], row["file"], row["old"], row["new"]) for row in rows]
    assert recorded == [(m.law, m.file, m.old, m.new) for m in MUTATIONS]
    assert [row["law"] for row in rows if not row["killed"]] == []


# The two that once survived, and every tenth; all of them take six minutes of both cores:
# just mutations
SURVIVED_ONCE = ("[(len(norms) - 1) // 2]", "if adapter.digest != digest:")
SAMPLE = [m for n, m in enumerate(MUTATIONS) if n % 10 == 5 or m.old in SURVIVED_ONCE]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_sample_of_the_mutations_is_killed():
    assert len([m for m in SAMPLE if m.old in SURVIVED_ONCE]) == 2
    assert len(SAMPLE) >= 9
    assert [fate for fate in try_all(SAMPLE, jobs=1) if not fate.killed] == []
