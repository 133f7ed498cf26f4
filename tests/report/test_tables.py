"""The tables say what the run recorded, and figures never leave anything out of their scale."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.committed import Exclusion
from fedse.report.charts import MOST_ROUNDS, SERIES, named_rounds, round_span
from fedse.report.figures import Figure, groups, shared_out
from fedse.report.many import spread_table, sum_table, thinned
from fedse.report.several import difference_table, final_table, flat
from fedse.report.tables import (
    ALL,
    CLIENT,
    ROUND,
    Cell,
    Column,
    Table,
    drift_table,
    missing_table,
    outcome_table,
    outcomes,
    stage_table,
    success_table,
    traffic_table,
)
from fedse.stats.rates import wilson
from fedse.types import ClientStats
from tests.report.runs import HELD_OUT, PLAYED, made_up

CLIENTS = {"a": "maze", "b": "maze", "c": "wordle"}


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory):
    return made_up(tmp_path_factory.mktemp("runs"), rounds=10, clients=CLIENTS)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.data())
def test_every_episode_is_in_exactly_one_part(won, failed, cut, broken, data):
    added = data.draw(st.integers(0, won))
    stats = ClientStats(
        played=won + failed + cut + broken, succeeded=won, truncated=cut, broken=broken, added=added
    )
    assert outcomes(stats, "success") == (added, won - added, failed, cut, broken)
    assert sum(outcomes(stats, "all")) == stats.played


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.data())
def test_so_it_is_where_failures_are_relabelled(won, failed, cut, broken, data):
    added = data.draw(st.integers(0, won + failed + cut))
    played = won + failed + cut + broken
    stats = ClientStats(played=played, succeeded=won, truncated=cut, broken=broken, added=added)
    parts = outcomes(stats, "hindsight")
    assert sum(parts) == played
    assert min(parts) >= 0
    assert parts[0] == added


def test_outcomes_under_select_all():
    stats = ClientStats(played=10, succeeded=3, truncated=2, broken=1, added=7)
    assert outcomes(stats, "all") == (7, 2, 0, 0, 1)


def test_success_pools_the_clients_of_an_environment(facts):
    rows = {(row[0], row[1]): row[2:] for row in success_table(facts).rows}
    won = [facts.evals[10][client].eval_succeeded for client in "abc"]
    pooled = won[0] + won[1]
    assert rows[10, "maze"] == [
        pooled, 2 * HELD_OUT, pooled / (2 * HELD_OUT), *wilson(pooled, 2 * HELD_OUT)
    ]  # fmt: skip
    assert rows[10, ALL][:2] == [sum(won), 3 * HELD_OUT]
    assert len(rows) == 11 * 3


def test_one_environment_needs_no_total(tmp_path: Path):
    alone = made_up(tmp_path, rounds=1, clients={"a": "maze"})
    assert {row[1] for row in success_table(alone).rows} == {"maze"}


def test_a_spread_is_that_of_the_clients_of_an_environment():
    columns = (ROUND, CLIENT, Column("loss", "loss", "number"))
    rows: list[list[Cell]] = [[1, f"c{i}", float(i)] for i in range(11)] + [[1, "x", None]]
    env_of = {f"c{i}": "maze" for i in range(11)} | {"x": "wordle"}
    spread = spread_table(Table(columns, rows), "loss", env_of)
    assert spread.rows == [[1, "maze", 0.0, 1.0, 5.0, 9.0, 10.0, 11]]
    counts = sum_table(Table(columns, rows), env_of)
    assert counts.rows == [[1, "maze", 55.0], [1, "wordle", 0]]


def test_of_a_long_table_the_newest_rounds_or_the_worst_clients_are_shown():
    rounds = Table((ROUND,), [[i] for i in range(5)])
    assert rounds.worth_a_look(2) == [[3], [4]]
    rows: list[list[Cell]] = [["a", 0.5], ["b", -0.5], ["c", None], ["d", 0.0]]
    clients = Table((CLIENT, Column("change", "change", "change")), rows)
    assert clients.worth_a_look(2) == [["b", -0.5], ["d", 0.0]]
    assert clients.worth_a_look(4) == rows


def test_of_many_rounds_the_first_and_the_last_are_kept():
    figure = Figure("f", "", "", Table((ROUND,), [[i] for i in range(1, 1004)]))
    shown = [row[0] for row in thinned(figure).table.rows]
    assert (shown[0], shown[-1]) == (1, 1003)
    assert 50 <= len(shown) <= MOST_ROUNDS + 2
    assert thinned(thinned(figure)) == thinned(figure)


def test_traffic_adds_up(facts):
    rows, each = traffic_table(facts).rows, facts.spec.nbytes / 1e6
    assert rows[0] == [0, 0.0, 0.0]
    assert rows[-1] == [10, pytest.approx(28 * each), pytest.approx(30 * each)]


def test_who_did_not_count_has_no_values_but_a_reason(facts):
    rows = {(row[0], row[1]): row[2:] for row in outcome_table(facts).rows}
    assert rows[10, "c"] == [None] * 6
    assert rows[9, "c"][0] == PLAYED
    assert [row[2:] for row in drift_table(facts).rows if row[:2] == [10, "c"]] == [[None, None]]
    told = ["c", "excluded", "rejected: expected 4 bytes, got <b>5</b>"]
    assert missing_table(facts).rows == [[5, *told], [10, *told]]


@pytest.mark.parametrize("kind", ["quarantined", "revoked", "suspected"])
def test_who_is_out_for_another_reason_is_called_so(facts, kind: str):
    out = Exclusion(client="c", kind=kind, reason="three strikes")
    last = facts.results[-1].model_copy(update={"excluded": (out,)})
    rows = missing_table(replace(facts, results=(last,))).rows
    assert rows == [[10, "c", kind, "three strikes"]]


def test_stages_are_the_sum_over_clients(facts):
    rows = stage_table(facts).rows
    assert rows[0] == [0, 0, 0, 9.0, None]
    assert rows[1] == [1, pytest.approx(3 * 4.123456), pytest.approx(3 * 6.54321), 9.0, 12.3456789]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_a_scale_holds_its_values_and_little_more(low: float, length: float):
    first, last = round_span((low, low + length))
    slack = 1e-6 * max(abs(low), length)
    assert first <= low + slack
    assert last >= low + length - slack
    assert last - first <= 3 * length + slack


def test_scales_end_on_round_numbers():
    assert round_span((0.0, 2.8)) == (0.0, 3.0)
    assert round_span((0.0, 1.0)) == (0.0, 1.0)
    assert round_span((0.0, 77.0)) == (0.0, 80.0)
    assert round_span((5.0, 5.0)) == (5.0, 6.0)


@given(st.integers(0, 3), st.integers(0, 3000))
def test_few_rounds_are_named(first: int, more: int):
    named = named_rounds((first, first + more))
    assert 1 <= len(named) <= 11
    assert all(first <= index <= first + more for index in named)


@given(st.integers(0, 40))
def test_panels_hold_every_client_once_and_at_most_five(count: int):
    names = [str(i) for i in range(count)]
    parts = shared_out(names)
    assert [name for part in parts for name in part] == names
    assert all(1 <= len(part) <= SERIES for part in parts)
    assert len(parts) == -(-count // SERIES)


def test_panels_never_mix_environments():
    many = {f"m{i}": "maze" for i in range(6)} | {"w": "wordle"}
    assert groups(list(many), many) == {
        "maze, 1 of 2": {"m0": 0, "m1": 1, "m2": 2},
        "maze, 2 of 2": {"m3": 0, "m4": 1, "m5": 2},
        "wordle": {"w": 0},
    }


def test_runs_side_by_side(facts, tmp_path: Path):
    other = made_up(tmp_path, rounds=2, clients={"a": "maze"}, name="other", select="all")
    told = {row[0]: row[1:] for row in difference_table([facts, other]).rows}
    assert told["run.rounds"] == ["10", "2"]
    assert told["select.type"] == ["success", "all"]
    assert told["clients.b.env"] == ["maze", "not set"]
    assert "clients.a.env" not in told
    finals = {(row[0], row[1]): row[2:] for row in final_table([facts, other]).rows}
    assert set(finals) == {("made-up", e) for e in ("maze", "wordle", ALL)} | {("other", "maze")}
    assert finals["other", "maze"][0] == 2


def test_flat_names_clients():
    nested = {"a": {"b": 1}, "clients": [{"name": "x", "n": None}], "empty": {}, "list": [1, 2]}
    assert flat(nested) == {
        "a.b": "1", "clients.x.name": "x", "clients.x.n": "not set", "empty": "{}", "list": "[1, 2]"
    }  # fmt: skip
