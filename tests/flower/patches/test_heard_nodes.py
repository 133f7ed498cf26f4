"""A SuperLink notes whom it heard, and what it gave and took."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.needs import needs

needs("flwr")

from fedse.federation.heard import (
    MANY_SITES,
    SILENT_SECONDS,
    HeardNode,
    presence_of,
    read_heard,
    silent_seconds,
)
from fedse.flower.patches.door import ENTER, FLEET, LEAVE, PULL, PUSH, HeardNodes
from fedse.flower.patches.presence import hasten_heartbeats

NODE = SimpleNamespace(node_id=7)
# A node learns its number by the answer when it comes, and names itself when it leaves.
REQUESTS = {ENTER: SimpleNamespace(public_key=b""), LEAVE: NODE}
BEAT = f"{FLEET}send-node-heartbeat"
NOTHING = SimpleNamespace(messages_list=[])


def question(round: str) -> SimpleNamespace:
    return SimpleNamespace(
        messages_list=[SimpleNamespace(metadata=SimpleNamespace(group_id=round))]
    )


class Link:
    """A SuperLink with one node and a clock that is set by hand."""

    def __init__(self, file: Path, silent: float = SILENT_SECONDS) -> None:
        self.file, self.now = file, 100.0
        clocks: Any = {"clock": lambda: self.now, "ticks": lambda: self.now + 7}
        self.nodes = HeardNodes(file, **clocks, silent=silent)

    def at(self, now: float, what: str, answer: Any = NOTHING) -> HeardNode:
        """What the file says after a request of this kind got this answer."""
        self.now = now
        self.nodes.note(what, REQUESTS.get(what, SimpleNamespace(node=NODE)), answer)
        self.nodes.write()
        return read_heard(self.file)[7]


def test_a_round_as_the_superlink_hears_it(tmp_path: Path):
    link = Link(tmp_path / "heard.json")
    words = [
        link.at(100, ENTER, NODE),
        link.at(103, PULL),
        link.at(106, PULL, question("4")),
        link.at(110, BEAT),
        link.at(114, PUSH),
        link.at(117, PULL),
        link.at(118, LEAVE),
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
    link.at(100, PULL, question("4"))
    link.at(101, PUSH)
    link.at(102, PULL, question("5"))
    assert presence_of(link.at(105, PULL), 112).doing == "idle"


def test_a_node_is_connected_since_it_was_heard_again(tmp_path: Path):
    link = Link(tmp_path / "heard.json")
    assert link.at(100, BEAT).since == 100
    assert link.at(100 + SILENT_SECONDS, BEAT).since == 100
    assert link.at(101 + 2 * SILENT_SECONDS, BEAT).since == 101 + 2 * SILENT_SECONDS


def test_a_superlink_that_was_restarted_knows_what_the_one_before_it_heard(tmp_path: Path):
    before = Link(tmp_path / "heard.json").at(100, PULL, question("4"))
    after = Link(tmp_path / "heard.json").at(104, BEAT)
    assert after == before.model_copy(update={"heard": 104, "tick": 111})


def test_a_group_that_is_no_number_is_no_round(tmp_path: Path):
    assert Link(tmp_path / "heard.json").at(1, PULL, question("-1 x")).round is None


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


def test_flowers_own_pace_is_in_time_where_there_are_many_sites(tmp_path: Path):
    sender = import_module("flwr.supercore.heartbeat")
    announced = import_module("flwr.supernode.fleet_http_connection")
    longest = announced.HEARTBEAT_DEFAULT_INTERVAL - sender.HEARTBEAT_CALL_TIMEOUT
    longest *= sender.HEARTBEAT_BASE_MULTIPLIER + sender.HEARTBEAT_RANDOM_RANGE[1]
    # One of them may be lost, and is sent again after 20 seconds.
    assert silent_seconds(MANY_SITES) == SILENT_SECONDS < longest + 20 < silent_seconds(601)
    link = Link(tmp_path / "heard.json", silent=silent_seconds(601))
    node = link.at(100, BEAT)
    assert presence_of(node, 107 + 44).doing == "idle"
    assert presence_of(node, 107 + 46).doing == "silent"
    assert link.at(144, BEAT).since == 100
