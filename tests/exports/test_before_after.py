"""Of the games that both ends of a run played, the first that was learned."""

from pathlib import Path

from fedse.exports.before_after import before_and_after
from fedse.exports.episodes import find_place, list_episodes
from tests.run_folders import write_run


def pair_of(path: Path, first: list[bool], last: list[bool]) -> list[tuple[str, str]]:
    run = write_run(path, {"desk-a": last}, first={"desk-a": first})
    pair = before_and_after(list_episodes(find_place(str(run), path.parent)))
    assert pair is not None
    return [(episode.game.task, episode.game.outcome) for episode in pair.played()]


def test_the_first_game_that_was_lost_and_then_won(tmp_path: Path):
    found = pair_of(tmp_path / "run", [False, True, False, False], [False, True, True, True])
    assert found == [("desk-2", "failure"), ("desk-2", "success")]


def test_without_one_it_is_the_first_game(tmp_path: Path):
    found = pair_of(tmp_path / "run", [True, False], [True, False])
    assert found == [("desk-0", "success"), ("desk-0", "success")]


def test_without_games_there_is_none():
    assert before_and_after([]) is None


def test_a_game_that_the_site_alone_lost_comes_first(tmp_path: Path):
    """Game 0 was learned by both, game 2 only together."""
    lost, won = [False] * 4, [True, False, True, True]
    run = write_run(tmp_path / "run", {"desk-a": won}, first={"desk-a": lost})
    lone = write_run(tmp_path / "lone", {"desk-a": [True, False, False, True]})
    listed = [list_episodes(find_place(str(path), tmp_path)) for path in (run, lone)]
    pair = before_and_after(*listed)
    assert pair is not None
    assert [(e.game.task, e.game.outcome) for e in pair.played()] == [
        ("desk-2", "failure"),
        ("desk-2", "failure"),
        ("desk-2", "success"),
    ]
