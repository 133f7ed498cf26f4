"""Those who watch are told of games, and of turns where these take long."""

from fedse.method.progress import BETWEEN_TURNS, told_now_and_then


def test_turns_are_told_only_where_they_take_long():
    now, told = [0.0], []
    progress = told_now_and_then(lambda *facts: told.append(facts), lambda: now[0])
    progress(0, 0, 1)
    now[0] += BETWEEN_TURNS
    progress(0, 0, 2)
    progress(0, 0, 3)
    progress(4, 1)
    now[0] += BETWEEN_TURNS / 2
    progress(4, 1, 1)
    progress(8, 3)
    assert told == [(0, 0, 2), (4, 1, 0), (8, 3, 0)]
