"""A secure sum in Flower's records: real sites behind a grid that delivers at once."""

import json
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import needs

needs("flwr", "cryptography", "Crypto")

from flwr.app import Message

from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.drivers.loop import federate
from fedse.drivers.run import run_local
from fedse.drivers.stages import introduce
from fedse.flower.messages.wire import read_request, reply_content
from fedse.flower.server import transport
from fedse.flower.server.transport import GridAsk
from fedse.protocol import KINDS, Sizes
from fedse.site.answer import answer
from fedse.site.served import ServedSites
from fedse.site.worker import largest_body, parse_question
from fedse.store.run import Run
from fedse.testing import open_toy_site
from tests.toys.disturbed import known_noise
from tests.toys.federation import NAMES, SPEC, toy_config

pytestmark = pytest.mark.usefixtures("task_identity")

CONFIG = with_settings(
    toy_config(),
    {
        "aggregate.clip": "none",
        "aggregate.secure": True,
        "aggregate.deadline": 1.0,
        "aggregate.rejoin": 0.0,
    },
)


class NodeInfo(NamedTuple):
    node_id: int
    name: str
    last_activated_at: str = ""


SIZES = Sizes(SPEC.nbytes, len(NAMES))


class SiteGrid:
    """Every message is answered by the site it is for, as its worker would, when it is pushed."""

    def __init__(
        self, path: Path, answers: Callable[[str, str], bool], config: Config = CONFIG
    ) -> None:
        self._answers, self._config = answers, config
        self.sites = ServedSites(
            config, NAMES, lambda n: open_toy_site(config, n, path / n, clock=time.time)
        )
        self._replies: dict[str, Message] = {}
        self._sent = 0

    def get_nodes(self) -> list[NodeInfo]:
        return [NodeInfo(100 + place, name) for place, name in enumerate(NAMES)]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            self._sent += 1
            ids.append(number := str(self._sent))
            message.metadata.__dict__["_message_id"] = number
            if reply := self._answer(message, message.metadata.dst_node_id - 100):
                self._replies[number] = reply
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies[i] for i in message_ids if i in self._replies]

    def _answer(self, message: Message, place: int) -> Message | None:
        fields, data = read_request(message.content)
        if not self._answers(NAMES[place], str(fields["kind"])):
            return None
        frame = json.dumps({"client": place, "request": fields}).encode()
        assert len(data) <= largest_body(frame, self.sites)
        name, question = parse_question(frame, self.sites)
        site = self.sites.site(name)
        config, silent = self._config, lambda *_, **__: None
        reply = answer(question, data, site, config, policy=None, emit=silent)
        assert len(reply.adapter or b"") <= KINDS[question.kind].up(SIZES)
        return Message(reply_content(reply._replace(client=place), salt=5), reply_to=message)


def federated(
    path: Path, answers: Callable[[str, str], bool] = lambda *_: True, config: Config = CONFIG
) -> Run:
    homes = {name: path / "homes" / name for name in NAMES}
    run = Run(path / "run", config, SPEC, clock=time.time)
    introduce(config, run.path, homes)
    grid = SiteGrid(path / "homes", answers, config)
    with closing(grid.sites):
        federate(run, GridAsk(grid, run, join_seconds=0.0), clock=time.time)
    return run


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "POLL_SECONDS", 0.01)


def test_over_the_grid_it_is_the_same_adapter_as_here(tmp_path: Path):
    here = Run(tmp_path / "here", CONFIG, SPEC, clock=time.time)
    run_local(here, open_site=open_toy_site)
    run = federated(tmp_path)
    assert [r.after for r in run.results()] == [r.after for r in here.results()]
    assert [r.voters for r in run.results()] == [NAMES, NAMES]


def test_a_private_step_over_the_grid_is_the_same_as_here(tmp_path: Path):
    """With noise that two runs can have in common."""
    needs("dp_accounting")
    steps = {"train.factors": "b", "step.units": 20, "step.noise": 1.0, "privacy.epsilon": 50.0}
    config = with_settings(CONFIG, steps)
    with known_noise():
        here = Run(tmp_path / "here", config, SPEC, clock=time.time)
        run_local(here, open_site=open_toy_site)
        run = federated(tmp_path, config=config)
    assert [r.after for r in run.results()] == [r.after for r in here.results()]
    assert all(r.after != r.before for r in run.results())


def test_a_site_that_falls_silent_in_a_stage_is_left_out(tmp_path: Path):
    run = federated(tmp_path, lambda name, stage: name != "delta" or stage != "masked")
    for result in run.results():
        assert result.voters == tuple(n for n in NAMES if n != "delta")
        assert result.before != result.after


def test_a_round_without_a_sum_is_a_round(tmp_path: Path):
    """Too few are left at the end of the first: the adapter stays, and the second is summed."""
    left: list[str] = []

    def answers(name: str, kind: str) -> bool:
        silent = kind == "unmask" and name >= "epsilon" and len(left) < 2
        left.extend([name] * silent)
        return not silent

    run = federated(tmp_path, answers)
    first, second = run.results()
    assert (first.after, first.voters, first.abstained) == (first.before, (), NAMES)
    assert (second.voters, second.after != second.before) == (NAMES, True)


def test_no_stage_has_a_longer_message_than_is_read():
    """The longest has the shares of all pairs."""
    for members, most in ((5, 1 << 14), (50, 1 << 19)):
        assert KINDS["shares"].down(Sizes(0, members)) < most
