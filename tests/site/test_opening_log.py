"""A start that is slow says how far it is, and one that is over says nothing."""

from fedse.site.opening_log import SAY_SECONDS, OpeningLog


def test_it_speaks_at_once_then_every_ten_seconds_and_not_after_the_end():
    said: list[str] = []
    now = [0.0]
    opening = OpeningLog("north", said.append, lambda: now[0])
    assert said == ["north: loading the base model and opening the buffer"]
    for now[0] in (1.0, SAY_SECONDS, SAY_SECONDS + 1, 2 * SAY_SECONDS):
        opening.beat()
    assert said[1:] == [f"north: playing demonstrations, {moves} moves so far" for moves in (2, 4)]
    opening.end()
    now[0] = 100.0
    opening.beat()
    assert len(said) == 3
