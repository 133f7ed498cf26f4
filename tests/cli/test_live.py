"""The live view's numbers and words, event by event."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fedse.cli.board import Board, board_of
from fedse.cli.live import draw
from fedse.config.schema import Config

WIDE = 100


def config(*clients: str, env: str = "maze") -> Config:
    members = [{"name": name, "env": env} for name in clients or ("a",)]
    return Config.model_validate({"run": {"rounds": 3}, "clients": members})


def measure(board: Board, round: int, won: int, played: int = 100, client: str = "a") -> str:
    board.take("eval.recorded", {"client": client, "round": round, "won": won, "played": played})
    return board.rows[client].held_out


def screen(board: Board, width: int = WIDE) -> str:
    shown = StringIO()
    console = Console(file=shown, width=width, force_terminal=False)
    console.print(draw(board, width=width, height=40, symbols=True))
    return shown.getvalue()


def test_the_change_is_that_since_before_the_first_round():
    board = board_of(config())
    assert [measure(board, *seen) for seen in ((0, 13), (1, 41), (2, 33))] == [
        "0.13",
        "0.41 +0.28",
        "0.33 +0.20",
    ]
    assert "0.33 +0.20" in screen(board)


def test_a_run_that_goes_on_takes_the_first_measurement_from_its_log(tmp_path: Path):
    log = tmp_path / "events.jsonl"
    seen = [("a", 0, 48), ("b", 0, 10), ("a", 2, 39)]
    lines = [
        {"event": "eval.recorded", "client": client, "round": round, "won": won, "played": 100}
        for client, round, won in seen
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    board = board_of(config("a", "b"), log=log)
    assert measure(board, 3, 42) == "0.42 -0.06"
    assert measure(board, 3, 1, played=10, client="b") == "0.10 +0.00"


def test_without_a_first_measurement_there_is_no_change():
    board = board_of(config())
    assert [measure(board, 2, 41), measure(board, 3, 33)] == ["0.41", "0.33"]


def nobody() -> dict[str, str]:
    return {}


@pytest.mark.parametrize(
    ("loads", "first"), [(True, "loading the model"), (False, "waiting for 1 of 1 site: a")]
)
def test_only_who_loads_a_model_says_so(loads: bool, first: str):
    board = board_of(config(), seen=None if loads else nobody)
    assert first in screen(board)
    board.take("round.started", {"round": 1, "rounds": 3})
    assert first in screen(board)
    board.take("commit.started", {"round": 1})
    assert "saving" in screen(board)
    board.take("round.committed", {"round": 1, "seconds": 5.0})
    assert ("sites at work" if loads else "waiting for 1 of 1 site: a") in screen(board)


def test_an_answer_tells_games_and_success_of_a_site_elsewhere():
    board = board_of(config(), seen=nobody)
    facts = {"bytes": 9, "buffered": 7, "loss": 0.5, "fault": "", "played": 48, "succeeded": 12}
    board.take("answer.received", {"client": "a", "round": 1, **facts})
    row = board.rows["a"]
    assert (row.games, row.success, row.state) == ("48", "0.25", "voted")


def test_games_count_up_while_a_client_explores():
    board, row = board_of(config()), {"client": "a", "round": 1}
    board.take("rollout.started", {**row, "episodes": 48})
    assert board.rows["a"].games == "0/48"
    board.take("rollout.progress", {**row, "played": 16, "won": 4})
    assert (board.rows["a"].games, board.rows["a"].success) == ("16/48", "0.25")
    board.take("eval.started", {**row, "episodes": 60})
    assert (board.rows["a"].games, board.rows["a"].state) == ("0/60", "evaluates")


@pytest.mark.parametrize(
    ("purpose", "state"),
    [("test", "evaluates"), ("home", "evaluates"), ("validation", "validates")],
)
def test_games_that_are_not_learned_from_count_up_too(purpose: str, state: str):
    board, row = board_of(config()), {"client": "a", "round": 1}
    for played in (0, 16):
        facts = {"purpose": purpose, "episodes": 40, "played": played, "won": 1}
        board.take("eval.progress", {**row, **facts})
        assert (board.rows["a"].games, board.rows["a"].state) == (f"{played}/40", state)
    assert f"● {state}" in screen(board)


def test_a_client_that_loads_is_shown_before_it_plays():
    board = board_of(config("a", "b"))
    board.take("round.started", {"round": 1, "rounds": 3})
    board.take("site.opening", {"client": "a", "round": 1})
    shown = screen(board)
    assert "loading the model" in shown
    assert [row.state for row in board.rows.values()] == ["loads", "waiting"]
    board.take("eval.started", {"client": "a", "round": 1, "episodes": 9})
    assert "sites at work" in screen(board)


def test_a_warm_start_is_named_instead_of_games_that_nobody_plays():
    board, row = board_of(config()), {"client": "a", "round": 1}
    board.take("rollout.started", {**row, "episodes": 0})
    board.take("train.started", {**row, "lessons": 24})
    shown = screen(board)
    assert "warm start: training on demonstrations, no games" in shown
    assert "0/0" not in shown
    board.take("round.committed", {"round": 1, "seconds": 5.0})
    board.take("rollout.started", {**row, "round": 2, "episodes": 8})
    board.take("train.started", {**row, "round": 2, "lessons": 24})
    assert "sites at work" in screen(board)


@pytest.mark.parametrize("width", [100, 60, 40])
def test_the_headings_are_whole_where_names_are_short(width: int):
    heading = screen(board_of(config("a", "b")), width).splitlines()[2]
    assert heading.split()[:2] == ["site", "state"]
    assert "\N{HORIZONTAL ELLIPSIS}" not in heading


def test_a_world_is_shown_by_its_class():
    assert " RefundDesk " in screen(board_of(config(env="desk.worlds:RefundDesk")))


def test_an_unfinished_bar_does_not_look_like_an_error():
    shown, board = StringIO(), board_of(config())
    board.take("round.started", {"round": 2, "rounds": 3})
    console = Console(file=shown, width=WIDE, force_terminal=True, color_system="standard")
    console.print(draw(board, width=WIDE, height=40, symbols=True))
    bar = shown.getvalue().splitlines()[1]
    assert "\x1b[36m" in bar
    assert not re.search(r"\x1b\[(31|35|91|95)m", bar)


def test_an_alarm_stays_on_the_screen_until_the_next_round_is_committed():
    board = board_of(config())
    board.take("round.committed", {"round": 1, "seconds": 5.0})
    board.take("alarm.raised", {"round": 1, "text": "nobody voted", "next": "fedse view last"})
    board.take("round.started", {"round": 2, "rounds": 3})
    assert "alarm  nobody voted; next: fedse view last" in screen(board)
    board.take("round.committed", {"round": 2, "seconds": 5.0})
    assert "alarm" not in screen(board)


def test_a_quarantined_site_is_called_so():
    board = board_of(config("a", "b"))
    facts = {"bytes": 0, "buffered": 0, "loss": None, "played": 0, "succeeded": 0, "round": 4}
    board.take("answer.received", {"client": "a", "fault": "quarantined: 3 strikes", **facts})
    board.take("answer.received", {"client": "b", "fault": "rejected: too long", **facts})
    assert [row.state for row in board.rows.values()] == ["quarantined", "excluded"]
    assert "✖ quarantined" in screen(board)


def test_a_coordinator_names_the_sites_it_waits_for_and_what_they_do():
    seen = {"south": "silent", "west": "working", "north": "sent"}
    board = board_of(config("east", "north", "south", "west"), seen=lambda: seen)
    board.take("round.started", {"round": 1, "rounds": 3})
    facts = {"bytes": 9, "buffered": 7, "loss": 0.5, "fault": "", "played": 48, "succeeded": 12}
    board.take("answer.received", {"client": "north", "round": 1, **facts})
    shown = screen(board)
    assert "waiting for 3 of 4 sites: east, south, west" in shown
    told = {line.split()[0]: line.split()[2] for line in shown.splitlines()[3:7]}
    assert told == {"east": "away", "north": "voted", "south": "silent", "west": "working"}
