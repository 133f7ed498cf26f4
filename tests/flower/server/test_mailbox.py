"""What the server's mailbox keeps of replies that come too late."""

import gc
import threading
import weakref
from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from tests.needs import needs

needs("flwr")

from fedse.flower.server import mailbox
from fedse.flower.server.mailbox import Mailbox, Node, Sent

NODE = Node(1, "alpha", "")


class Reply:
    def __init__(self, question: str) -> None:
        self.metadata = SimpleNamespace(reply_to_message_id=question)


class SlowGrid:
    """Hands out each reply when the test lets it."""

    def __init__(self) -> None:
        self.whole = threading.Event()
        self.payloads: list[weakref.ref[Reply]] = []

    def pull_messages(self, message_ids: Iterable[str]) -> list[Reply]:
        (asked,) = message_ids
        reply = Reply(asked)
        self.payloads.append(weakref.ref(reply))
        self.whole.wait(60)
        return [reply]


@pytest.mark.parametrize("expired", [True, False])
def test_a_reply_is_kept_for_as_long_as_its_question_lives(
    monkeypatch: pytest.MonkeyPatch, expired: bool
):
    monkeypatch.setattr(mailbox, "PULL_SECONDS", 0.0)
    clock = SimpleNamespace(monotonic=lambda: 1.0)
    monkeypatch.setattr(mailbox, "time", clock)
    grid, before = SlowGrid(), set(threading.enumerate())
    box, waiting = Mailbox(grid), {"q": Sent(NODE, 1, expires=2.0)}
    assert list(box.replies(waiting)) == []
    (pull,) = set(threading.enumerate()) - before
    grid.whole.set()
    pull.join(60)
    del pull
    clock.monotonic = lambda: 2.0 if expired else 1.5
    # Meanwhile the replies to another question are read.
    assert list(box.replies({})) == []
    gc.collect()
    assert [payload() is None for payload in grid.payloads] == [expired]
    if not expired:
        assert [name for name, _, _ in box.replies(waiting)] == ["q"]
