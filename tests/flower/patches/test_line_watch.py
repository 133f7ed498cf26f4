"""A SuperNode's way to its server: reached, refused or not reached, and why, by every request."""

from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from tests.needs import needs

needs("flwr")

from fedse.federation.line import ServerLine, read_line
from fedse.flower.patches.line_watch import LineWatch, reached, transport_reason

FLEET = "/v1/fleet"


class Requests:
    """Requests of one SuperNode, with answers and times given by hand."""

    def __init__(self, file: Path) -> None:
        self.file, self.now = file, 0.0
        self.before: ServerLine | None = None
        """What it said when the last request was sent."""
        self._watch = LineWatch(file, clock=lambda: self.now)

    def at(self, now: float, path: str, answer: int | Exception) -> ServerLine | None:
        """What the file says after this request."""
        self.now = now

        def send(client: object, context: object) -> SimpleNamespace:
            self.before = read_line(self.file)
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(status_code=answer)

        url = SimpleNamespace(path=f"{FLEET}/{path}")
        context = SimpleNamespace(request=SimpleNamespace(url=url))
        if isinstance(answer, Exception):
            with pytest.raises(type(answer)):
                self._watch.sending(send)(self, context)
        else:
            assert self._watch.sending(send)(self, context).status_code == answer
        return read_line(self.file)


def test_an_outage_and_the_way_back(tmp_path: Path):
    requests, refused = Requests(tmp_path / "line"), httpx.ConnectError("[Errno 111] refused")
    told = [
        requests.at(1, "activate-node", refused),
        requests.at(2, "activate-node", refused),
        requests.at(3, "activate-node", 200),
        requests.at(4, "pull-messages", 200),
        requests.at(5, "send-node-heartbeat", 502),
    ]
    assert [(one.state, one.since) for one in told if one] == [
        ("unreachable", 1),
        ("unreachable", 1),
        ("connected", 3),
        ("connected", 3),
        ("unreachable", 5),
    ]


def test_an_answer_is_sent_when_the_node_looks_for_the_next_question(tmp_path: Path):
    requests = Requests(tmp_path / "line")
    steps = ["pull-messages", "push-messages", "push-object", "pull-messages", "pull-messages"]
    told = [requests.at(now, path, 200) for now, path in enumerate(steps)]
    assert [one.sent for one in told if one] == [None, None, None, 3, 3]
    assert {one.since for one in told if one} == {0}


def test_it_is_sent_before_there_is_an_answer_to_the_look(tmp_path: Path):
    requests = Requests(tmp_path / "line")
    requests.at(1, "push-messages", 200)
    requests.at(2, "pull-messages", 200)
    assert requests.before
    assert requests.before.sent == 2


@pytest.mark.parametrize(
    ("path", "status", "state"),
    [
        ("activate-node", 200, "connected"),
        ("activate-node", 412, "refused"),
        ("pull-messages", 401, "refused"),
        ("push-object", 400, "connected"),
        ("pull-messages", 503, "unreachable"),
    ],
)
def test_what_a_status_means(path: str, status: int, state: str):
    assert reached(f"{FLEET}/{path}", status)[0] == state


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), "Connection refused"),
        (httpx.ConnectError("[Errno -2] Name or\nservice not known"), "Name or service not known"),
        (httpx.ReadTimeout("timed out"), "it does not answer in time"),
        (httpx.ReadError(""), "ReadError"),
    ],
)
def test_the_reason_is_one_line(error: httpx.TransportError, reason: str):
    assert transport_reason(error) == reason
