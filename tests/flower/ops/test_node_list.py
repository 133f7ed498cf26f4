"""Which nodes a SuperLink has to forget and to learn, so that it knows the enrolled sites."""

from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("flwr")

from fedse.flower.ops.node_list import KnownNode, NodeChanges, node_changes

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
