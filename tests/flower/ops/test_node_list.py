"""Which nodes a SuperLink has to forget and to learn, so that it knows the enrolled sites."""

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("flwr")

from fedse.federation.folder import nodes
from fedse.federation.keys import public_pem
from fedse.flower.ops.node_list import KnownNode, NodeChanges, node_changes, register_enrolled
from tests.federation.scene import Scene

NAMES = st.sampled_from(["north", "south", "east"])
KEYS = st.sampled_from([b"1", b"2", b"3"])


def test_a_new_key_is_a_new_node_under_the_same_name():
    known = {7: KnownNode("north", b"old"), 8: KnownNode("south", b"s")}
    assert node_changes(known, {"north": b"new", "south": b"s"}) == NodeChanges(
        {7: "north"}, ["north"]
    )


def test_who_is_not_enrolled_leaves_and_who_is_comes():
    known = {7: KnownNode("north", b"n")}
    assert node_changes(known, {"south": b"s"}) == NodeChanges({7: "north"}, ["south"])
    assert node_changes(known, {"north": b"n"}) == NodeChanges({}, [])


@given(
    known=st.dictionaries(st.integers(1, 9), st.builds(KnownNode, NAMES, KEYS)),
    enrolled=st.dictionaries(NAMES, KEYS),
)
def test_afterwards_every_enrolled_site_is_known_with_its_key_and_nobody_else_is(known, enrolled):
    leave, come = node_changes(known, enrolled)
    after = {(node.name, node.key) for n, node in known.items() if n not in leave}
    after |= {(name, enrolled[name]) for name in come}
    assert after == set(enrolled.items())


class SlowFlower:
    """Registers as Flower's command does, late, and refuses a key that is registered already."""

    def __init__(self, database: Path) -> None:
        self._database, self.begun = database, threading.Event()
        self.registered = 0

    def succeed(self, commands: Mapping[str, Sequence[str]], *, seconds: float) -> list[Path]:
        self.begun.set()
        threading.Event().wait(0.5)
        for command in commands.values():
            *_, site, file = command
            with closing(sqlite3.connect(self._database)) as db, db:
                row = (7, site, public_pem(Path(file).read_text()), "registered")
                db.execute("INSERT INTO node VALUES (?, ?, ?, ?)", row)
            self.registered += 1
        return []


def test_two_commands_at_once_register_a_site_once(scene: Scene):
    scene.enrol(scene.request(scene.join()))
    database = scene.federation.path / "superlink.db"
    with closing(sqlite3.connect(database)) as db, db:
        columns = "node_id INTEGER, name TEXT, public_key BLOB UNIQUE, status TEXT"
        db.execute(f"CREATE TABLE node ({columns})")
    flower: Any = SlowFlower(database)
    first = threading.Thread(target=register_enrolled, args=(scene.federation, flower))
    first.start()
    assert flower.begun.wait(20)
    register_enrolled(scene.federation, flower)
    first.join()
    assert flower.registered == 1
    assert nodes(scene.federation) == {"alpha": 7}
