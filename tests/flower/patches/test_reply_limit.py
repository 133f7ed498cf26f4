"""No reply is read further than a reply can be long; through Flower's own reading."""

import pytest

from tests.needs import needs

needs("flwr")

from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, pull_objects
from flwr.superlink.grid import http_grid

from fedse.flower.messages.bounds import OBJECT_BYTES, SLACK_BYTES, SLACK_OBJECTS, reply_bounds
from fedse.flower.patches.reply_limit import PULL, bound_pulls, bounded

ADAPTER = 4 * OBJECT_BYTES


def pulled(sizes: dict[str, int]) -> list[str]:
    """The objects that were asked for until the whole was read, or given up."""
    asked: list[str] = []

    def pull(name: str) -> bytes:
        asked.append(name)
        return bytes(sizes[name])

    read = bounded(pull_objects, reply_bounds(ADAPTER))
    try:
        found = read(object_ids=list(sizes), pull_object_fn=pull)
    except ObjectPullError:
        return asked
    assert {name: len(content) for name, content in found.items()} == sizes
    return []


def test_a_reply_is_read_as_it_is():
    assert pulled({"numbers": 2000, "adapter": ADAPTER}) == []
    assert pulled({"slack": SLACK_BYTES, "adapter": ADAPTER}) == []


def test_one_byte_more_is_given_up():
    assert pulled({"slack": SLACK_BYTES + 1, "adapter": ADAPTER})


def test_of_a_huge_one_little_is_read():
    huge = {str(i): ADAPTER for i in range(SLACK_OBJECTS)}
    # Flower pulls a few at a time, so some are under way when the bound is met.
    assert 2 <= len(pulled(huge)) < 12


def test_of_one_in_too_many_pieces_nothing_is_read():
    pieces = {str(i): 1 for i in range(SLACK_OBJECTS + ADAPTER // OBJECT_BYTES + 1)}
    read = bounded(pull_objects, reply_bounds(ADAPTER))
    with pytest.raises(ObjectPullError, match="of more than 68 objects"):
        read(object_ids=list(pieces), pull_object_fn=lambda name: pytest.fail("was read"))


def test_flowers_grid_reads_by_the_name_that_is_replaced(monkeypatch: pytest.MonkeyPatch):
    assert http_grid.pull_objects is pull_objects
    monkeypatch.setattr(http_grid, PULL, pull_objects)
    bound_pulls(ADAPTER)
    assert http_grid.pull_objects is not pull_objects
    assert PULL in http_grid.HttpGrid.pull_messages.__code__.co_names
