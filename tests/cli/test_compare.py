"""`fedse compare`: which runs belong together, what is said of them, and how it is drawn."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.cli.app import start
from fedse.cli.whiskers import ASCII, UNICODE, Signs, axis_over, tick_line, whisker
from tests.run_folders import write_run

GOOD = {"maze-a": [True] * 40 + [False] * 20, "wordle-a": [True] * 30 + [False] * 30}
POOR = {"maze-a": [True] * 15 + [False] * 45, "wordle-a": [True] * 28 + [False] * 32}
ALL = {"select": {"type": "all"}}
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "60")
    return tmp_path


def told(capsys: Captured, *argv: str) -> str:
    assert start(["compare", *argv]) == 0
    return capsys.readouterr().out


def data(capsys: Captured, *argv: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(capsys, *argv, "--json"))
    return found


def test_a_difference_is_said_and_drawn(root: Path, capsys: Captured) -> None:
    write_run(root / "a", GOOD)
    write_run(root / "b", POOR, settings=ALL)
    said = told(capsys, "a", "b")
    # 27 games only a won, none only b: -27/120; McNemar 2 / 2^27.
    assert re.search(r"b is worse than a by 0\.2[23] \(0\.1\d to 0\.\d\d\), p < 0\.001\.", said)
    assert 'select.type = "all", not "success"' in said
    assert "b minus a, the same 120 games" in said
    assert "One seed" in said
    assert "a is better than b by 0.2" in told(capsys, "b", "a")


def broken_off(path: Path) -> None:
    """The run ended after its first round: only the adapter before it was measured."""
    log = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
    kept = [event for event in log if event["event"] == "eval.recorded" and event["round"] == 0]
    kept += [{"event": "round.committed", "round": 1}]
    (path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in kept))


def test_other_numbers_of_rounds_are_warned_of(root: Path, capsys: Captured) -> None:
    write_run(root / "a", GOOD)
    write_run(root / "b", POOR, settings=ALL)
    assert data(capsys, "a", "b")["notes"] == []
    broken_off(root / "b")
    note = (
        "measured after different numbers of rounds, so more than the method differs: a 2, b 0; "
        f"continue the one that is behind: fedse resume {root / 'b'}"
    )
    assert data(capsys, "a", "b")["notes"] == [note]
    assert note.replace(" ", "") in re.sub(r"\s", "", told(capsys, "a", "b"))
    assert data(capsys, "a", "b", "--round", "0")["notes"] == []


def test_runs_of_other_lengths_can_be_compared_after_the_same_round(
    root: Path, capsys: Captured
) -> None:
    write_run(root / "a", GOOD)
    longer = {**ALL, "run": {"name": "x", "rounds": 4}}
    write_run(root / "b", POOR, settings=longer)
    log = root / "b" / "events.jsonl"
    more = [
        {"event": "eval.recorded", "round": 4, "client": client, "won": 30, "played": 60}
        for client in POOR
    ]
    log.write_text(log.read_text() + "".join(json.dumps(event) + "\n" for event in more))
    (note,) = data(capsys, "a", "b")["notes"]
    assert note.endswith("a 2, b 4; all after round 2: --round 2")


@pytest.mark.parametrize("columns", ["40", "60", "100"])
def test_it_fits_the_window(
    root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    long = "20260101-000000-a-name-of-some-length"
    write_run(root / long, GOOD)
    write_run(root / "b", POOR, settings=ALL)
    write_run(root / "c", GOOD, settings={"train": {"epochs": 3}})
    said = told(capsys, long, "b", "c")
    assert max(map(len, said.splitlines())) <= max(60, int(columns))
    assert f"A  after round 2 of 2, seed 0: {long}" in said.replace("\n   ", " ")
    assert "B is worse than A" in said
    assert "for 2 comparisons (Holm)" in re.sub(r"\s+", " ", said)


def test_plain_is_ascii_without_colour(root: Path, capsys: Captured) -> None:
    write_run(root / "a", GOOD)
    write_run(root / "b", POOR, settings=ALL)
    plain = told(capsys, "a", "b", "--plain")
    assert plain.isascii()
    assert "\x1b" not in plain
    assert re.search(r"\[-+o-+\]", plain)
    drawn = str.maketrans("├─●┤│┼", "[-o]|+")
    assert told(capsys, "a", "b").translate(drawn) == plain


def test_the_same_adapter_shows_no_difference(root: Path, capsys: Captured) -> None:
    write_run(root / "a", GOOD)
    write_run(root / "b", GOOD, settings=ALL)
    said = re.sub(r"\s+", " ", told(capsys, "a", "b"))
    assert "No difference found between b and a: +0.00" in said
    assert "p 1.000" in said
    # Connor with all 120 games agreeing: 0.064 is the least that 80 % of such comparisons find.
    found = data(capsys, "a", "b")["differences"][0]
    assert found["verdict"] == "no difference found"
    assert f"One of {found['minimum_detectable']:.2f} or more" in said
    assert found["minimum_detectable"] == pytest.approx(0.064, abs=0.001)


def test_seeds_of_one_method_are_one_arm(root: Path, capsys: Captured) -> None:
    for seed in (0, 1):
        write_run(root / f"a-seed{seed}", GOOD, seed=seed)
        run = {"name": "x", "rounds": 2, "seed": seed, "workers": 1 + seed}
        write_run(root / f"b-seed{seed}", POOR, settings={**ALL, "run": run}, seed=seed)
    found = data(capsys, "a-seed0", "a-seed1", "b-seed0", "b-seed1")
    assert [(arm["name"], list(arm["runs"])) for arm in found["arms"]] == [
        ("a", ["0", "1"]),
        ("b", ["0", "1"]),
    ]
    assert found["arms"][0]["environments"]["maze"]["played"] == 120
    (difference,) = found["differences"]
    assert (difference["seeds"], difference["games"], difference["paired"]) == (2, 240, True)
    assert difference["all"]["value"] == pytest.approx(-27 / 120)
    assert difference["mean_of_environments"]["value"] == pytest.approx(-(25 / 60 + 2 / 60) / 2)


def test_a_seed_only_one_arm_has_is_left_out_and_told(root: Path, capsys: Captured) -> None:
    write_run(root / "a-seed0", GOOD)
    write_run(root / "a-seed1", POOR, seed=1)
    write_run(root / "b", GOOD, settings=ALL)
    found = data(capsys, "a-seed0", "a-seed1", "b")
    assert found["notes"] == ["left out, not run by every arm: seed 1"]
    assert found["differences"][0]["all"]["value"] == 0


def test_a_client_only_one_run_has_is_left_out_and_told(root: Path, capsys: Captured) -> None:
    write_run(root / "a", {**GOOD, "maze-b": [True] * 9})
    write_run(root / "b", GOOD)
    found = data(capsys, "a", "b")
    assert found["notes"] == ["left out, not measured in all runs: maze-b"]
    assert found["arms"][0]["all"]["played"] == 120


@pytest.mark.parametrize(
    ("other", "why"),
    [({"kept": False}, "not on this machine"), ({"played_with": 9}, "different held-out games"),
     ({"seed": 3}, "share no seed")],
)  # fmt: skip
def test_without_common_games_counts_are_compared(
    root: Path, capsys: Captured, other: dict[str, Any], why: str
) -> None:
    write_run(root / "a", GOOD)
    write_run(root / "b", POOR, settings=ALL, **{k: v for k, v in other.items() if k != "seed"})
    if "seed" in other:
        write_run(root / "c", POOR, seed=other["seed"], settings={"train": {"epochs": 3}})
    name = "c" if "seed" in other else "b"
    (found,) = data(capsys, "a", name)["differences"]
    assert not found["paired"]
    assert why in found["unpaired_because"]
    # Newcombe, method 10, of 43 of 120 and 70 of 120.
    low, high = found["all"]["low"], found["all"]["high"]
    assert (low, high) == pytest.approx((-0.3418, -0.0990), abs=5e-4)
    assert why in re.sub(r"\s+", " ", told(capsys, "a", name))


def test_an_earlier_round(root: Path, capsys: Captured) -> None:
    write_run(root / "a", GOOD, first=POOR)
    write_run(root / "b", POOR, first=POOR, settings=ALL)
    found = data(capsys, "a", "b", "--round", "0")
    assert found["arms"][0]["rounds"] == [0]
    assert found["differences"][0]["all"]["value"] == 0


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([], 2, "expected at least 2 runs, got 0"),
        (["a"], 2, "expected at least 2 runs, got 1"),
        (["a", "a"], 2, "run a is given twice"),
        (["a", "zz"], 7, "there is no run 'zz'"),
        (["a", "b", "--round", "1"], 7, "did not evaluate the adapter after round 1, only"),
        (["a", "again", "b"], 2, "runs a and again have the same settings and the same seed 0"),
    ],
)
def test_what_cannot_be_compared(
    root: Path, capsys: Captured, argv: list[str], code: int, said: str
) -> None:
    write_run(root / "a", GOOD)
    write_run(root / "again", GOOD)
    write_run(root / "b", POOR, settings=ALL)
    assert start(["compare", *argv]) == code
    assert said in capsys.readouterr().err


def test_two_runs_of_the_same_settings_stand_for_themselves(root: Path, capsys: Captured) -> None:
    """The same file run again, say after a change of the code."""
    write_run(root / "a", GOOD)
    write_run(root / "again", POOR)
    found = data(capsys, "a", "again")
    assert [arm["name"] for arm in found["arms"]] == ["a", "again"]
    assert found["differences"][0]["paired"]
    assert "same settings" in found["notes"][0]


unit = st.floats(-1, 1)


@given(st.tuples(unit, unit, unit), st.integers(16, 80), st.sampled_from([ASCII, UNICODE]))
def test_a_whisker_stands_where_its_numbers_are(
    numbers: tuple[float, float, float], width: int, signs: Signs
) -> None:
    low, value, high = sorted(numbers)
    axis = axis_over([0.0, *numbers], width)
    drawn = whisker(axis, value, low, high, signs, zero=True)
    assert len(drawn) <= width
    assert drawn.index(signs.dot) == axis.column(value)
    assert axis.low - 1e-9 <= min(low, 0) <= max(high, 0) <= axis.high + 1e-9
    assert len(tick_line(axis, signed=True)) <= width
    if axis.column(low) < axis.column(value):
        assert drawn.index(signs.left) == axis.column(low)


def test_ticks_stand_over_their_columns() -> None:
    axis = axis_over([0.21, 0.58], 41)
    assert (axis.low, axis.high) == pytest.approx((0.2, 0.6))
    line = tick_line(axis)
    assert line.split() == ["0.2", "0.3", "0.4", "0.5", "0.6"]
    assert [line.index(tick) + 1 for tick in ("0.3", "0.4", "0.5")] == [10, 20, 30]
    assert (line.index("0.2"), len(line)) == (0, 41)
