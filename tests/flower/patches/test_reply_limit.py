"""No reply is read further than a reply can be long; through Flower's own reading."""

import pytest

from tests.needs import needs

needs("flwr")

from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, pull_objects
from flwr.superlink.grid import http_grid

from fedse.flower.messages.bounds import OBJECT_BYTES, SLACK_BYTES, SLACK_OBJECTS, reply_bounds
from fedse.flower.patches.reply_limit import bound_pulls

ADAPTER = 4 * OBJECT_BYTES


def pulled(sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The objects that were asked for until the whole was read, or given up."""
    asked: list[str] = []

    def pull(name: str) -> bytes:
        asked.append(name)
        return bytes(sizes[name])

    monkeypatch.setattr(http_grid, "pull_objects", pull_objects)
    bound_pulls(ADAPTER)
    try:
        found = http_grid.pull_objects(object_ids=list(sizes), pull_object_fn=pull)
    except ObjectPullError:
        return asked
    assert {name: len(content) for name, content in found.items()} == sizes
    return []


def test_a_reply_is_read_as_it_is_and_one_byte_more_is_given_up(monkeypatch):
    bound = reply_bounds(ADAPTER).bytes
    assert pulled({"slack": SLACK_BYTES, "adapter": ADAPTER}, monkeypatch) == []
    assert pulled({"slack": SLACK_BYTES + 1, "adapter": ADAPTER}, monkeypatch)
    assert bound == SLACK_BYTES + ADAPTER


def test_of_a_huge_one_little_is_read(monkeypatch):
    huge = {str(i): ADAPTER for i in range(SLACK_OBJECTS)}
    # Flower pulls a few at a time, so some are under way when the bound is met.
    assert 2 <= len(pulled(huge, monkeypatch)) < 12
