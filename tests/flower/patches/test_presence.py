"""A node that was killed is said goodbye for; one that left in peace, or is elsewhere, is not.

That a real SuperLink lets a node in at once after it is shown in test_rejoin.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.needs import needs

needs("flwr")

import httpx

from fedse.flower.patches.presence import Known, entering, leaving, read_presence


def answer(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "https://localhost")
    return httpx.HTTPStatusError("", request=request, response=httpx.Response(status))


class Server:
    """Knows one node; refuses it while it believes it online. Counts what it was asked."""

    def __init__(self, file: Path) -> None:
        self.online, self.asked, self.breaks = False, [], 0
        self._file = file
        self.told_before_entering: list[Known | None] = []

    def enter(self, client: object, request: object) -> SimpleNamespace:
        self.asked.append("enter")
        self.told_before_entering.append(read_presence(self._file))
        if self.breaks or self.online:
            raise answer(self.breaks or 412)
        self.online = True
        return SimpleNamespace(node_id=7)

    def leave(self, client: object, request: SimpleNamespace) -> None:
        self.asked.append(f"leave {request.node_id}")
        if not self.online:
            raise answer(412)
        self.online = False


NODE = SimpleNamespace(node_id=7)


class Visit:
    """A site's side of it, with its file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "node.id"
        self.server = Server(self.file)

    def enter(self) -> None:
        entering(self.server.enter, self.server.leave, self.file)(None, None)

    def leave(self) -> None:
        leaving(self.server.leave, self.file)(None, NODE)


@pytest.fixture
def visit(tmp_path: Path) -> Visit:
    return Visit(tmp_path)


def test_the_next_one_says_goodbye_for_one_that_could_not(visit: Visit):
    visit.enter()
    assert read_presence(visit.file) == Known(7, online=True)
    visit.enter()
    assert visit.server.asked == ["enter", "leave 7", "enter"]


def test_one_that_left_in_peace_is_not_said_goodbye_for(visit: Visit):
    visit.enter()
    visit.leave()
    assert read_presence(visit.file) == Known(7, online=False)
    visit.enter()
    assert visit.server.asked == ["enter", "leave 7", "enter"]


def test_one_that_is_killed_before_it_hears_that_it_is_in_is_remembered(visit: Visit):
    visit.enter()
    visit.leave()
    visit.enter()
    assert visit.server.told_before_entering == [None, Known(7, online=True)]


def test_another_machine_with_the_same_key_is_not_thrown_out(visit: Visit):
    """However often it is tried: nothing here was ever online."""
    visit.file.write_text("7 left\n")
    visit.server.online = True
    for _ in range(3):
        with pytest.raises(httpx.HTTPStatusError):
            visit.enter()
    assert visit.server.asked == ["enter"] * 3
    assert visit.server.online


def test_a_server_that_broke_half_way_may_have_let_it_in(visit: Visit):
    visit.file.write_text("7 left\n")
    visit.server.breaks = 500
    with pytest.raises(httpx.HTTPStatusError):
        visit.enter()
    assert read_presence(visit.file) == Known(7, online=True)


def test_a_goodbye_that_is_refused_keeps_nobody_out(visit: Visit):
    visit.file.write_text("9\n")
    visit.enter()
    assert visit.server.asked == ["leave 9", "enter"]
    assert read_presence(visit.file) == Known(7, online=True)


def test_a_goodbye_the_server_did_not_hear_is_said_again(visit: Visit):
    visit.enter()
    visit.server.online = False
    with pytest.raises(httpx.HTTPStatusError):
        visit.leave()
    assert read_presence(visit.file) == Known(7, online=True)


@pytest.mark.parametrize("said", ["", "seven", "left", " left"])
def test_a_file_that_says_nothing_usable_is_none(tmp_path: Path, said: str):
    (tmp_path / "node.id").write_text(said)
    assert read_presence(tmp_path / "node.id") is None
