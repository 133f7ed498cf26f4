"""A SuperLink notes whom it heard and what it gave and took; no request is changed by that."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.needs import needs

needs("flwr")

from fedse.federation.heard import SILENT_SECONDS, HeardNode, presence_of, read_heard
from fedse.flower.patches.heard_nodes import HANDLERS, PLAIN, HeardNodes, hasten_heartbeats

NODE = SimpleNamespace(node=SimpleNamespace(node_id=7), node_id=7)
NOTHING = SimpleNamespace(messages_list=[])


def question(round: str) -> SimpleNamespace:
    return SimpleNamespace(
        messages_list=[SimpleNamespace(metadata=SimpleNamespace(group_id=round))]
    )


class Link:
    """A SuperLink with one node and a clock that is set by hand."""

    def __init__(self, file: Path, now: float = 100.0) -> None:
        self.file, self.now = file, now
        self.nodes = HeardNodes(file, clock=lambda: self.now, ticks=lambda: self.now + 7)

    def at(self, now: float, what: str, answer: Any = NOTHING) -> HeardNode:
        """What the file says after a request of this kind got this answer."""
        self.now = now
        handle = getattr(self.nodes, what)(lambda *, request, state: answer)
        assert handle(request=NODE, state=None) is answer
        self.nodes.write()
        return read_heard(self.file)[7]


def test_a_round_as_the_superlink_hears_it(tmp_path: Path):
    link = Link(tmp_path / "heard.json")
    words = [
        link.at(100, "entering", NODE),
        link.at(103, "asking"),
        link.at(106, "asking", question("4")),
        link.at(110, "hearing"),
        link.at(114, "answering"),
        link.at(117, "asking"),
        link.at(118, "leaving"),
    ]
    told = [presence_of(one, one.tick) for one in words]
    assert [(one.doing, one.since, one.round) for one in told] == [
        ("idle", 100, None),
        ("idle", 100, None),
        ("working", 106, 4),
        ("working", 106, 4),
        ("sent", 114, 4),
        ("sent", 114, 4),
        ("left", 118, None),
    ]
    assert [one.heard for one in words] == [100, 103, 106, 110, 114, 117, 118]


def test_a_question_that_was_given_up_is_not_sent(tmp_path: Path):
    link = Link(tmp_path / "heard.json")
    link.at(100, "asking", question("4"))
    link.at(101, "answering")
    link.at(102, "asking", question("5"))
    assert presence_of(link.at(105, "asking"), 112).doing == "idle"


def test_a_node_is_connected_since_it_was_heard_again(tmp_path: Path):
    link = Link(tmp_path / "heard.json")
    assert link.at(100, "hearing").since == 100
    assert link.at(100 + SILENT_SECONDS, "hearing").since == 100
    assert link.at(101 + 2 * SILENT_SECONDS, "hearing").since == 101 + 2 * SILENT_SECONDS


def test_a_superlink_that_was_restarted_knows_what_the_one_before_it_heard(tmp_path: Path):
    before = Link(tmp_path / "heard.json").at(100, "asking", question("4"))
    after = Link(tmp_path / "heard.json").at(104, "hearing")
    assert after == before.model_copy(update={"heard": 104, "tick": 111})


@pytest.mark.parametrize("what", ["hearing", "entering", "leaving", "asking", "answering"])
def test_a_request_that_was_refused_was_not_heard(tmp_path: Path, what: str):
    nodes = HeardNodes(tmp_path / "heard.json", clock=lambda: 1.0, ticks=lambda: 1.0)

    def refuse(*, request: object) -> None:
        raise PermissionError("401")

    with pytest.raises(PermissionError, match="401"):
        getattr(nodes, what)(refuse)(request=NODE)
    nodes.write()
    assert read_heard(tmp_path / "heard.json") == {}


def test_a_group_that_is_no_number_is_no_round(tmp_path: Path):
    assert Link(tmp_path / "heard.json").at(1, "asking", question("-1 x")).round is None


def test_this_flower_has_the_handlers_that_are_followed():
    handlers = import_module(HANDLERS)
    for name in (*PLAIN, "activate_node", "deactivate_node", "pull_messages", "push_messages"):
        assert callable(getattr(handlers, name))


def test_a_working_node_is_heard_in_time_and_believed_as_long_as_before(
    monkeypatch: pytest.MonkeyPatch,
):
    sender = import_module("flwr.supercore.heartbeat")
    monkeypatch.setattr(sender, "HEARTBEAT_DEFAULT_INTERVAL", 30)
    hasten_heartbeats()
    longest = sender.HEARTBEAT_DEFAULT_INTERVAL - sender.HEARTBEAT_CALL_TIMEOUT
    longest *= sender.HEARTBEAT_BASE_MULTIPLIER + sender.HEARTBEAT_RANDOM_RANGE[1]
    assert longest == pytest.approx(4.5)
    # One of them may be late by three seconds.
    assert longest + 3 < SILENT_SECONDS
    announced = import_module("flwr.supernode.fleet_http_connection")
    assert announced.HEARTBEAT_DEFAULT_INTERVAL == 30
