"""Which adapter serves a session, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse_serve.asked import Asked, parse_asked
from fedse_serve.rows import Pin
from fedse_serve.serving import Offered, Serving

NAMES = st.text("abcdef0123456789", min_size=1, max_size=12)


def asked(session: str = "", person: str = "") -> Asked:
    headers = {"x-fedse-session-id": session, "x-fedse-person": person}
    return parse_asked("chat/completions", b'{"messages": [{}]}', headers)


def serving(now: list[Offered], *, sticky: str = "session", remembered: int = 10) -> Serving:
    pins: dict[str, Pin] = {}
    return Serving(pins.get, lambda: now[-1], salt="s", sticky=sticky, remembered=remembered)  # type: ignore[arg-type]


@given(NAMES, st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_session_keeps_its_adapter_whatever_share_the_candidate_gets(
    session: str, shares: list[float]
) -> None:
    now = [Offered("a", "b", share) for share in shares]
    serve = serving(now[:1])
    first = serve(asked(session))
    for one in now:
        serve._offered = lambda one=one: one  # type: ignore[misc]
        assert serve(asked(session)) == first


def test_without_a_candidate_everybody_gets_the_present_adapter() -> None:
    serve = serving([Offered("a")])
    assert {serve(asked(str(i))).adapter for i in range(50)} == {"a"}


@given(NAMES)
def test_at_a_share_of_one_everybody_is_served_by_the_candidate(session: str) -> None:
    assert serving([Offered("a", "b", 1.0)])(asked(session)).adapter == "b"


def test_a_session_of_a_candidate_that_was_rolled_back_goes_on_with_the_present_one() -> None:
    now = [Offered("a", "b", 1.0)]
    serve = serving(now)
    assert serve(asked("x")).adapter == "b"
    now.append(Offered("a"))
    after = serve(asked("x"))
    assert (after.arm, after.adapter) == ("canary", "a")


def test_a_session_that_left_memory_is_looked_up() -> None:
    pins = {"x": Pin("x", "canary", "b", True, False)}
    serve = Serving(pins.get, lambda: Offered("a", "b", 0.0), salt="s", sticky="session")
    assert serve(asked("x")).adapter == "b"
    assert serve(asked("y")).adapter == "a"


def test_memory_holds_so_many_sessions_and_no_more() -> None:
    serve = serving([Offered("a", "b", 0.5)], remembered=3)
    for i in range(100):
        serve(asked(str(i)))
    assert len(serve._known) == 3


@pytest.mark.parametrize(("sticky", "arms"), [("person", 1), ("session", 2)])
def test_a_person_may_stick_to_one_arm(sticky: str, arms: int) -> None:
    serve = serving([Offered("a", "b", 0.5)], sticky=sticky, remembered=100)
    assert len({serve(asked(str(i), person="p")).arm for i in range(40)}) == arms
