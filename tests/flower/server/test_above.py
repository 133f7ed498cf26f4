"""The round loop of a region at its socket: what a node gets from it, and when it ends."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.needs import needs

needs("flwr", "cryptography")

from fedse.drivers.loop import initial_adapter
from fedse.faults import Fault
from fedse.federation.line import ServerLine, write_line
from fedse.flower.server import above as module
from fedse.flower.server.above import has_left, serve_above
from fedse.protocol import Question, SiteReply
from fedse.site.socket_client import ask_site
from fedse.store.next_round import ask_to_stop
from fedse.types import Adapter
from tests.toys.federation import NAMES, SPEC, first_request
from tests.toys.regions import Tree, above_config

PARTITION = {"north": NAMES[:2], "south": NAMES[2:]}
CONFIG = above_config(PARTITION)
CURRENT = initial_adapter(SPEC, seed=CONFIG.run.seed)


def served(tmp_path: Path, ask: Callable[[Callable[..., SiteReply], Path], None]) -> list[str]:
    """The region north listens until it ends, while `ask` talks to it; the events of its run."""
    tree, told = Tree(tmp_path, CONFIG, PARTITION), list[str]()
    with TemporaryDirectory() as place, tree.region("north") as region:
        run, socket = region._run, Path(place) / "site.sock"

        def put(question: Question, adapter: Adapter, body: bytes | None = None) -> SiteReply:
            sent = adapter.to_bytes() if body is None else body
            while not socket.exists():
                time.sleep(0.01)
            asked = question.model_dump(mode="json")
            return ask_site(socket, asked, sent, client=None, max_reply_bytes=1 << 20, timeout=60.0)

        talk = threading.Thread(target=ask, args=(put, run.path))
        talk.start()
        serve_above(
            run, region, socket, place=0, beat=lambda: None, gone=lambda given: not talk.is_alive()
        )
        talk.join()
        text = (run.path / "events.jsonl").read_text()
        told += [line.split('"event": "')[1].split('"')[0] for line in text.splitlines()]
    return told


def test_it_answers_as_a_site_and_ends_with_the_last_adapter(tmp_path: Path):
    replies = list[SiteReply]()

    def ask(put: Callable[..., SiteReply], run: Path) -> None:
        train = first_request(CONFIG, CURRENT)
        replies.append(put(train, CURRENT))
        replies.append(put(train, CURRENT))
        last = {"kind": "evaluate", "round": CONFIG.run.last + 1, "evaluate": False}
        replies.append(put(first_request(CONFIG, CURRENT, **last), CURRENT))

    events = served(tmp_path, ask)
    assert replies[0] == replies[1]
    assert replies[0].adapter
    assert [(one.fault, one.client) for one in replies] == [(Fault.NONE, 0)] * 3
    assert events[-1] == "run.finished"
    assert events.count("round.started") == 1


REFUSED = {
    "other settings": ({"agreed": "0" * 64}, None, Fault.REQUEST),
    "another adapter": ({"adapter": "0" * 64}, None, Fault.REQUEST),
    "no adapter": ({}, b"x", Fault.ADAPTER),
    "a round that never comes": ({"round": 9}, None, Fault.TOO_MANY_ROUNDS),
    "an amendment": ({"kind": "agree"}, b"{}", Fault.REQUEST),
    "a sum of nothing": ({"kind": "sum"}, b"{}", Fault.REQUEST),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_has_not_agreed_to_is_a_number(tmp_path: Path, case: str):
    changes, body, fault = REFUSED[case]
    replies = list[SiteReply]()

    def ask(put: Callable[..., SiteReply], run: Path) -> None:
        question = first_request(CONFIG, CURRENT).model_copy(update=changes)
        replies.append(put(question, CURRENT, body))
        ask_to_stop(run)

    events = served(tmp_path, ask)
    assert [(one.fault, one.adapter) for one in replies] == [(fault, None)]
    assert {"region.refused", "run.stopped"} <= {*events}


def test_the_last_answer_has_left_when_the_node_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file, now = tmp_path / "line.json", time.monotonic()
    assert not has_left(file, now)
    for sent, left in ((now - 1, False), (now + 1, True)):
        write_line(file, ServerLine(state="connected", since=now, sent=sent))
        assert has_left(file, now) == left
    monkeypatch.setattr(module, "LEAVE_SECONDS", 0.0)
    assert has_left(tmp_path / "none.json", now - 1)
