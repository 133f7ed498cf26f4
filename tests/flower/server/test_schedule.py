"""Whom a round asks, whom again, and when it stops waiting: laws without a network or a clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("flwr")

from fedse.flower.server.mailbox import Node, Sent
from fedse.flower.server.schedule import (
    ASK_ALL,
    FAILED_SECONDS,
    SILENCE_SECONDS,
    Asking,
    ReplyValue,
    Size,
    in_order,
    size_of,
)

DEADLINE, REJOIN, JOIN = 1000.0, 90.0, 60.0


def nodes(*ids: int, since: str = "") -> list[Node]:
    return [Node(i, f"site-{i}", since) for i in ids]


def asking(members: int = 3, *, goal: int = 0, well: set[int] | None = None) -> Asking:
    known = None if well is None else frozenset(f"site-{i}" for i in well)
    size = size_of(members, goal)
    return Asking(begun=0, ends=DEADLINE, rejoin=REJOIN, size=size, well=known, join=JOIN)


def ask(one: Asking, found: list[Node], now: float) -> list[int]:
    """The nodes that are asked at `now`; each message has a number of its own."""
    due = one.due(found, now)
    one.sent({f"{n.id}@{now}": Sent(n, 1, now + seconds) for n, seconds in due.items()}, now)
    return [n.id for n in due]


def answer(one: Asking, node: int, worth: ReplyValue = ReplyValue.VOTE) -> dict[str, Sent]:
    message = next(i for i, sent in one.waiting.items() if sent.node.id == node)
    del one.waiting[message]
    return one.answered(f"site-{node}", worth)


def falter(one: Asking, node: int, now: float) -> None:
    message = next(i for i, sent in one.waiting.items() if sent.node.id == node)
    del one.waiting[message]
    one.faltered(f"site-{node}", "went offline", now)


def test_everybody_is_asked_once_and_the_round_closes_with_the_last_answer():
    one = asking()
    assert ask(one, nodes(1, 2, 3), 0) == [1, 2, 3]
    assert ask(one, nodes(1, 2, 3), 1) == []
    for node in (1, 2):
        answer(one, node)
        assert not one.over(2)
    answer(one, 3)
    assert one.over(2)


def test_a_silent_node_is_asked_again_ever_more_rarely_and_settled_by_any_of_the_answers():
    one, asked = asking(1), []
    for now in range(int(DEADLINE)):
        asked += [now] * len(ask(one, nodes(1), float(now)))
    assert asked == [0, 20, 60, 140, 300, 620]
    assert asked[1] == SILENCE_SECONDS
    late = answer(one, 1)
    assert (len(late), one.waiting, one.over(700)) == (5, {}, True)


def test_a_slow_node_is_given_twice_the_time_it_took_before():
    one = asking(1)
    one.took = {"site-1": 42.0}
    asked = [now for now in range(int(DEADLINE)) if ask(one, nodes(1), float(now))]
    assert asked == [0, 84, 252, 588]


def test_a_question_to_a_silent_node_lives_until_the_next_one():
    one = asking(1)
    lives = {}
    for now in range(int(DEADLINE)):
        due = one.due(nodes(1), float(now))
        lives |= dict.fromkeys([now] * len(due), sum(due.values()))
        one.sent({f"{now}": Sent(n, 1, 0.0) for n in due}, float(now))
    assert lives == {0: DEADLINE, 20: 40, 60: 80, 140: 160, 300: 320, 620: 380}


def test_who_came_back_is_asked_at_once():
    one = asking(1)
    assert ask(one, nodes(1, since="Monday"), 0) == [1]
    assert ask(one, nodes(1, since="Monday"), 3) == []
    assert ask(one, nodes(1, since="Tuesday"), 4) == [1]


def test_who_failed_in_a_passing_way_is_asked_again_after_a_pause_that_grows():
    one, asked = asking(1), [0]
    ask(one, nodes(1), 0)
    falter(one, 1, 0.0)
    for now in range(1, 80):
        if ask(one, nodes(1), float(now)):
            asked.append(now)
            falter(one, 1, float(now))
    assert asked == [0, 2, 6, 14, 30, 62]
    assert asked[1] == FAILED_SECONDS
    assert not one.over(REJOIN - 1)
    assert one.over(REJOIN)
    assert list(one.failures()) == [("site-1", "went offline")]


@pytest.mark.parametrize(("sites", "first"), [(3, 20), (20, 20), (21, 21), (300, 300)])
def test_silence_means_nothing_while_a_server_may_be_taking_the_answers_of_others(sites, first):
    one, everybody = asking(sites), nodes(*range(1, sites + 1))
    ask(one, everybody, 0)
    assert ask(one, everybody, first - 0.1) == []
    assert len(ask(one, everybody, first)) == sites


def test_a_repeated_question_that_runs_out_is_no_failure_while_the_first_is_worked_on():
    one = asking(1)
    ask(one, nodes(1), 0)
    assert ask(one, nodes(1), SILENCE_SECONDS) == [1]
    first, second = one.waiting
    del one.waiting[second]
    one.faltered("site-1", "ran out", 60.0)
    assert (one.failed, list(one.waiting)) == ({}, [first])
    assert ask(one, nodes(1), 59.0) == []


def test_one_that_failed_and_then_answers_has_not_failed():
    one = asking(1)
    ask(one, nodes(1), 0)
    falter(one, 1, 0)
    assert ask(one, nodes(1), 5) == [1]
    answer(one, 1)
    assert (list(one.failures()), one.votes, one.over(5)) == ([], 1, True)


def test_a_site_that_vanishes_is_waited_for_so_long_and_no_longer():
    one = asking(2, well={1, 2})
    ask(one, nodes(1, 2), 0)
    answer(one, 1)
    assert ask(one, nodes(1), 10) == []
    assert not one.over(REJOIN - 1)
    assert one.over(REJOIN)


def test_a_site_that_was_not_well_last_time_is_asked_and_not_waited_for():
    one = asking(2, well={1})
    assert ask(one, nodes(1, 2), 0) == [1, 2]
    answer(one, 1)
    falter(one, 2, 1)
    assert one.over(1)


def test_an_absent_site_never_hangs_a_round():
    one = asking(3, well={1, 2})
    ask(one, nodes(1, 2), 0)
    answer(one, 1)
    answer(one, 2)
    assert one.over(0)


def test_after_a_restart_only_who_answered_before_is_waited_for():
    one = asking(3, well={1, 2})
    ask(one, nodes(1), 0)
    answer(one, 1)
    assert not one.over(REJOIN - 1)
    ask(one, nodes(1, 2), 30)
    answer(one, 2)
    assert one.over(30)


def test_after_a_restart_a_round_that_would_be_abandoned_waits_for_more_sites():
    one = asking(3, well={1})
    one.needed = 2
    ask(one, nodes(1), 0)
    answer(one, 1)
    assert not one.over(JOIN - 1)
    assert one.over(JOIN)


SHORT = 60.0


def restarted(members: int, *, well: set[int], needed: int = 1) -> Asking:
    """A round after a restart: sites may take JOIN x 10 seconds to come, and SHORT to answer."""
    one = asking(members, well=well)
    one.join, one.deadline, one.needed = 10 * JOIN, SHORT, needed
    one.ends = one.join + SHORT
    return one


def test_after_a_restart_a_silent_site_has_the_deadline_and_no_longer():
    one = restarted(3, well={1, 2, 3})
    assert set(one.due(nodes(1, 2, 3), 5.0).values()) == {SHORT}
    ask(one, nodes(1, 2, 3), 5.0)
    for node in (1, 2):
        answer(one, node)
    assert not one.over(5 + SHORT - 1)
    assert one.over(5 + SHORT)


def test_after_a_restart_the_deadline_begins_when_who_was_well_has_come_or_stays_away():
    one = restarted(3, well={1, 2})
    ask(one, nodes(1), 0)
    answer(one, 1)
    assert one.closes() == one.ends
    ask(one, nodes(1, 2), 30)
    assert one.closes() == 30 + SHORT
    alone = restarted(3, well={1, 2, 3})
    ask(alone, nodes(1, 2), 0)
    answer(alone, 1)
    ask(alone, nodes(1, 2), REJOIN - 1)
    assert alone.closes() == alone.ends
    ask(alone, nodes(1, 2), REJOIN)
    assert alone.closes() == REJOIN + SHORT


def test_a_round_that_would_be_abandoned_waits_longer_but_no_question_lives_longer():
    one = restarted(3, well={1, 2}, needed=2)
    ask(one, nodes(1, 2), 0)
    answer(one, 1)
    assert not one.over(SHORT)
    assert max(one.due(nodes(1, 2), 500.0).values(), default=0.0) <= SHORT
    assert one.over(10 * JOIN + SHORT)


def test_at_the_first_round_the_deadline_begins_when_all_have_come():
    one = restarted(2, well=set())
    one.well = None
    ask(one, nodes(1), 0)
    answer(one, 1)
    assert one.closes() == one.ends
    ask(one, nodes(1, 2), 100)
    assert one.closes() == 100 + SHORT


def test_a_node_that_comes_and_goes_is_asked_ever_more_rarely():
    one = asking(1)
    asked = [t for t in range(100) if ask(one, nodes(1, since=str(t)), float(t))]
    assert asked == [0, 1, 3, 7, 15, 31, 63]


def test_who_stays_silent_is_replaced_by_the_next_in_the_draw():
    one = asking(ASK_ALL + 1, goal=2)
    everybody = nodes(*range(ASK_ALL + 1))
    assert ask(one, everybody, 0) == [0, 1, 2]
    answer(one, 1)
    assert ask(one, everybody, SILENCE_SECONDS) == [0, 2]
    assert ask(one, everybody, SILENCE_SECONDS + 1) == [3, 4]


def test_at_the_first_round_all_members_are_waited_for_but_not_for_ever():
    one = asking(3)
    ask(one, nodes(1), 0)
    answer(one, 1)
    assert not one.over(JOIN - 1)
    assert one.over(JOIN)


def test_a_node_that_works_is_waited_for_until_the_deadline():
    one = asking(1)
    ask(one, nodes(1), 0)
    ask(one, nodes(1), DEADLINE - 1)
    assert not one.over(DEADLINE - 1)
    assert one.over(DEADLINE)


def test_the_goal_closes_the_round_at_once():
    one = asking(5, goal=2)
    assert ask(one, nodes(1, 2, 3, 4, 5), 0) == [1, 2, 3, 4, 5]
    answer(one, 4)
    answer(one, 1, ReplyValue.NOTHING)
    answer(one, 2, ReplyValue.NO_VOTE)
    assert not one.over(1)
    answer(one, 5)
    assert one.over(1)


@pytest.mark.parametrize(
    ("members", "goal", "expected"),
    [(5, 0, (5, 5)), (5, 9, (5, 5)), (20, 10, (10, 20)), (21, 10, (10, 13)), (21, 20, (20, 21))],
)
def test_of_many_members_a_third_more_than_needed_are_asked(members, goal, expected):
    assert size_of(members, goal) == Size(*expected)


def test_who_fails_is_replaced_by_the_next_in_the_draw():
    one = asking(ASK_ALL + 1, goal=2)
    everybody = nodes(*range(ASK_ALL + 1))
    assert ask(one, everybody, 0) == [0, 1, 2]
    answer(one, 1, ReplyValue.NO_VOTE)
    assert ask(one, everybody, 1) == [3]
    falter(one, 0, 1)
    assert ask(one, everybody, 2) == [4]


@given(st.permutations(range(6)), st.dictionaries(st.integers(0, 5), st.integers(0, 99)))
def test_the_draw_does_not_depend_on_the_order_of_arrival(order, drawn):
    draw = {f"site-{i}": number for i, number in drawn.items()}
    assert in_order(nodes(*order), draw) == in_order(nodes(*range(6)), draw)


@given(st.lists(st.tuples(st.sampled_from("anfv"), st.integers(0, 3)), max_size=40))
def test_no_node_counts_twice_whatever_happens(happenings):
    """a = answers, n = answers badly, f = fails for now, v = vanishes and comes back."""
    one, since = asking(4), dict.fromkeys(range(4), 0)
    for now, (what, node) in enumerate(happenings):
        found = [Node(i, f"site-{i}", str(since[i])) for i in range(4)]
        asked = ask(one, found, float(now))
        assert not {f"site-{i}" for i in asked} & one.settled
        waits = any(sent.node.id == node for sent in one.waiting.values())
        if what == "v":
            since[node] += 1
        elif waits and what == "f":
            falter(one, node, float(now))
        elif waits:
            answer(one, node, ReplyValue.VOTE if what == "a" else ReplyValue.NOTHING)
    assert one.votes == one.valid <= len(one.settled) <= 4
    assert not {sent.node.key for sent in one.waiting.values()} & one.settled
    assert not set(one.failed) & one.settled
