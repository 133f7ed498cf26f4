"""Waiting: how often it looks, when it gives up, and what may end it."""

import time

import pytest

from fedse.waiting import wait_until


def test_it_looks_at_once_and_after_every_pause(monkeypatch: pytest.MonkeyPatch):
    left, said = [False, False, True], list[object]()
    monkeypatch.setattr(time, "sleep", said.append)

    def holds() -> bool:
        said.append("look")
        return left.pop(0)

    assert wait_until(holds, seconds=None, every=0.7, meanwhile=lambda: said.append("meanwhile"))
    assert said == ["look", "meanwhile", 0.7, "look", "meanwhile", 0.7, "look"]


def test_what_holds_at_once_needs_no_preparation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fedse.waiting.Retrying", None)
    assert wait_until(lambda: True, seconds=None, every=60)


def test_no_time_is_one_look_and_nothing_meanwhile():
    said: list[str] = []

    def holds() -> bool:
        said.append("look")
        return False

    assert not wait_until(holds, seconds=0, every=60, meanwhile=lambda: said.append("meanwhile"))
    assert said == ["look"]


def test_the_time_is_over_when_it_is():
    began = time.monotonic()
    assert not wait_until(lambda: False, seconds=0.1, every=0.01)
    assert 0.1 <= time.monotonic() - began < 5


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["holds", "meanwhile"])
def test_what_is_raised_ends_the_waiting(raised: type[BaseException], where: str):
    def raises() -> bool:
        raise raised

    asked = {"holds": lambda: False, "meanwhile": lambda: None, where: raises}
    with pytest.raises(raised):
        wait_until(asked["holds"], seconds=None, every=0, meanwhile=asked["meanwhile"])
