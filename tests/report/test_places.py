"""At home and elsewhere, and the gate: what was counted is what is shown."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedse.committed import Exclusion, GateRecord
from fedse.config.methods import with_settings
from fedse.report.facts import RunFacts
from fedse.report.places import at_home, gate, places_table
from fedse.report.sections import run_sections
from fedse.types import ClientStats
from tests.report.runs import made_up

COUNTS = ClientStats(
    eval_played=10,
    eval_succeeded=2,
    personal_played=10,
    personal_succeeded=4,
    home_played=10,
    home_succeeded=5,
    personal_home_played=10,
    personal_home_succeeded=8,
)


@pytest.fixture
def facts(tmp_path: Path) -> RunFacts:
    return made_up(tmp_path, rounds=2, clients={"a": "maze", "b": "wordle"})


def test_a_run_without_home_and_personal_adapters_has_no_such_section(facts: RunFacts):
    assert places_table(facts) is None
    titles = [section.title for section in run_sections(facts, "")]
    assert "At home" not in titles
    assert "Gate" not in titles


def test_both_adapters_stand_side_by_side_in_both_places(facts: RunFacts):
    last = max(facts.evals)
    newest = {"a": COUNTS, "b": facts.evals[last]["b"]}
    shown = replace(facts, evals={**facts.evals, last: newest})
    table = at_home(shown, "x").table
    assert table is not None
    assert [column.key for column in table.columns][:6] == [
        "client", "env", "test", "test-personal", "home", "home-personal",
    ]  # fmt: skip
    [own] = table.where("client", "a")
    assert [own[p] for p in ("test", "test-personal", "home", "home-personal")] == [
        0.2, 0.4, 0.5, 0.8,
    ]  # fmt: skip
    assert own["gain"] == pytest.approx(0.3)
    assert own["low"] < 0.3 < own["high"]
    [other] = table.where("client", "b")
    assert other["home"] is other["gain"] is None


def test_the_gate_tells_every_verdict_and_who_was_left_out(facts: RunFacts):
    first, second = facts.results
    suspect = Exclusion(client="b", kind="suspected", reason="worse with it")
    settings = {"splits.validation": 0.2, "gate.episodes": 9, "gate.liars": 0}
    judged = replace(
        facts,
        config=with_settings(facts.config, settings),
        results=(
            first.model_copy(update={"gate": record(-0.4, refused=True)}),
            second.model_copy(update={"gate": record(0.1, refused=False), "excluded": (suspect,)}),
        ),
    )
    section = gate(judged, "x")
    assert section.lead.startswith("The sites refused 1 of 2 merged adapters")
    assert section.table is not None
    assert [row[4:] for row in section.table.rows] == [["refused", "none"], ["accepted", "b"]]
    assert "Gate" in [one.title for one in run_sections(judged, "")]


def record(change: float, *, refused: bool) -> GateRecord:
    return GateRecord(change=change, bound=-0.2, sites=2, refused=refused)
