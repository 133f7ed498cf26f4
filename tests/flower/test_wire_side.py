"""What a site shows before it sends, what it unpacks, what the proxy lets through, who abstains."""

import io
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import needs

needs("flwr")

from flwr.app import Message, RecordDict
from flwr.cli.build import build_fab_from_disk
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.protobuf import translation

from fedse.adapters.base import adapter_spec
from fedse.config.schema import Config
from fedse.drivers.loop import federate
from fedse.errors import WireError
from fedse.faults import Fault
from fedse.federation.nginx import FLEET_ROUTES, nginx_config
from fedse.flower.messages.bundle import contents_digest, own_digest, write_app
from fedse.flower.messages.wire import (
    ADAPTER,
    INTEGERS,
    MAX_COUNT,
    REPLY,
    read_reply,
    reply_content,
)
from fedse.flower.patches import bundle_guard
from fedse.flower.preview import EXAMPLE, preview
from fedse.flower.server import transport
from fedse.flower.server.transport import GridAsk
from fedse.protocol import Delivery, Question, SiteReply
from fedse.store.run import Run
from fedse.testing import toy_adapter, toy_spec
from fedse.types import AdapterSpec, ClientStats

SPEC = toy_spec()
NAMES = ("alpha", "beta", "gamma")
SPECS = {
    "toy": SPEC,
    "tiny": adapter_spec("tiny", rank=8, alpha=16.0, targets=("all-linear",)),
    # Two and a half of the chunks Flower cuts arrays into.
    "large": toy_spec(rank=100, inputs=16_000, outputs=16_000),
}


def sent(content: RecordDict) -> int:
    """Bytes of a message's content on the wire, counted apart from the code under test."""
    return sum(len(part.deflate()) for part in get_all_nested_objects(content).values())


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_the_preview_has_the_fields_and_the_bytes_of_a_real_reply(spec: AdapterSpec):
    shown = preview(spec, place=2)
    stats = ClientStats(played=3, succeeded=1, loss=0.1, buffered=9, eval_played=4, steps=1)
    real = reply_content(SiteReply(stats, toy_adapter(spec, 1).to_bytes(), client=2), salt=5)
    assert [field.name for field in shown.numbers] == list(real[REPLY])
    assert [field.kind for field in shown.numbers] == [
        type(v).__name__ for v in real[REPLY].values()
    ]
    assert shown.adapter_bytes == len(real[ADAPTER][ADAPTER].data) == spec.nbytes
    assert sum(part.bytes for part in shown.parts) == shown.bytes
    values = {field.name: field.example for field in shown.numbers}
    place, fault, salt = (values.pop(name) for name in ("client", "fault", "salt"))
    stats = ClientStats.model_validate(values)
    same = SiteReply(stats, toy_adapter(spec, 7).to_bytes(), Fault(fault), place)
    assert sent(reply_content(same, salt=salt)) == shown.bytes
    assert shown.bytes - 100 < sent(real) <= shown.bytes_at_most
    most = ClientStats.model_validate({**values, **dict.fromkeys(INTEGERS, MAX_COUNT)})
    longest = SiteReply(most, toy_adapter(spec, 7).to_bytes(), client=place)
    assert sent(reply_content(longest, salt=salt)) == shown.bytes_at_most


def test_the_examples_can_be_told_apart_and_a_server_would_take_them():
    numbers = EXAMPLE.model_dump()
    assert len({*numbers.values()}) == len(numbers)
    silent = ClientStats().model_dump()
    assert [name for name, value in numbers.items() if value == silent[name]] == []
    content = reply_content(SiteReply(EXAMPLE, b"1234"), salt=5)
    assert read_reply(content, max_bytes=4).stats == EXAMPLE


def test_the_preview_would_notice_a_number_more(monkeypatch: pytest.MonkeyPatch):
    from fedse.flower.messages import wire

    before = preview(SPEC, place=0)
    monkeypatch.setattr(wire, "INTEGERS", (*wire.INTEGERS, "eval_played_twice"))
    monkeypatch.setattr(ClientStats, "eval_played_twice", 7, raising=False)
    after = preview(SPEC, place=0)
    assert {f.name for f in after.numbers} - {f.name for f in before.numbers} == {
        "eval_played_twice"
    }
    assert after.bytes > before.bytes


def test_nothing_that_stays_is_a_field_of_what_leaves():
    shown = preview(SPEC, place=0)
    leaves = {field.name for field in shown.numbers}
    for names in shown.stays.values():
        assert names
        assert not leaves & set(names)
    assert "observation" in shown.stays["Turn"]


def test_the_bundle_a_site_accepts_is_the_one_it_would_build(tmp_path: Path):
    fab = build_fab_from_disk(write_app(tmp_path))
    assert contents_digest(fab) == own_digest()
    unpacked = []
    bundle_guard.guarded(lambda bundle, **_: unpacked.append(bundle), own_digest())(
        fab, skip_prompt=True
    )
    assert unpacked == [fab]


def rezipped(
    fab: bytes, change: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(fab)) as old, zipfile.ZipFile(out, "w", compression) as new:
        files = {name: old.read(name) for name in old.namelist()} | change
        for name, data in files.items():
            new.writestr(name, data)
    return out.getvalue()


def twice(fab: bytes) -> bytes:
    out = io.BytesIO(fab)
    warned = pytest.warns(UserWarning, match="Duplicate name")
    with zipfile.ZipFile(out, "a") as archive, warned:
        archive.writestr("fedse_app/client.py", archive.read("fedse_app/client.py"))
    return out.getvalue()


BUNDLES = {
    "code added to a file": lambda fab: rezipped(fab, {"fedse_app/client.py": b"import os\n"}),
    "a file added": lambda fab: rezipped(fab, {"fedse_app/more.py": b""}),
    "a file twice": twice,
    "not a bundle": lambda fab: b"PK",
    "nothing": lambda fab: b"",
}


@pytest.mark.parametrize("change", BUNDLES.values(), ids=BUNDLES.keys())
def test_another_bundle_is_not_unpacked(tmp_path: Path, change):
    fab = change(build_fab_from_disk(write_app(tmp_path)))

    def unpack(*_: object) -> None:
        raise AssertionError("unpacked")

    with pytest.raises(WireError) as refusal:
        bundle_guard.guarded(unpack, own_digest())(fab)
    assert str(refusal.value) == bundle_guard.REFUSED


def zipped(name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


HUGE = bytes(64 << 20)


def lying(size: int) -> bytes:
    """A bundle whose directory says that a file of 64 MB has `size` bytes."""
    return zipped("a.py", HUGE).replace(len(HUGE).to_bytes(4, "little"), size.to_bytes(4, "little"))


BOMBS: Mapping[str, Callable[[], bytes]] = {
    "a huge file": lambda: zipped("a.py", HUGE),
    "a huge file that says it is small": lambda: lying(9),
    "a huge file in a compression that is unpacked at once": lambda: zipped(
        "a.py", HUGE, zipfile.ZIP_BZIP2
    ),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bundle_that_unpacks_to_much_is_refused_before_it_does(kind: str):
    bomb = BOMBS[kind]()
    assert len(bomb) < 1 << 17
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="app bundle"):
            contents_digest(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20


def test_of_a_bundle_that_is_too_large_a_supernode_reads_no_settings():
    read = bundle_guard.only_small(lambda bundle, run: {"run-dir": "of the server"})
    assert read(BOMBS["a huge file"](), None) == {}
    assert read(zipped("a.py", b"small"), None) == {"run-dir": "of the server"}


def test_a_name_cannot_stand_for_two_lines_of_the_digest():
    with pytest.raises(WireError, match="line break"):
        contents_digest(zipped("a.py 00\nb.py", b""))


def test_how_a_bundle_is_compressed_does_not_matter(tmp_path: Path):
    fab = build_fab_from_disk(write_app(tmp_path))
    assert contents_digest(rezipped(fab, {}, zipfile.ZIP_STORED)) == own_digest()


def test_the_proxy_knows_all_fleet_routes_of_this_flower():
    """A route that is new in Flower is noticed here and not by a site that hangs."""
    tables = [
        t
        for t in vars(translation).values()
        if isinstance(t, dict) and ("POST", "/v1/fleet/get-fab") in t
    ]
    (table,) = tables
    fleet = {path.removeprefix("/v1/fleet/") for _, path in table if path.startswith("/v1/fleet/")}
    assert fleet == {*FLEET_ROUTES, "register-node", "unregister-node"}


def test_the_proxy_passes_on_only_what_it_names():
    text = nginx_config(
        Path("/srv/fed"), host="fed.example.org", port=8443, link_port=8000, sites=5
    )
    passed = [line.split() for line in text.splitlines() if "proxy_pass" in line]
    assert len(passed) == len(FLEET_ROUTES)
    for words in passed:
        path = words[words.index("=") + 1]
        assert words[words.index("proxy_pass") + 1] == f"https://127.0.0.1:8000{path};"
    assert "location / { return 403; }" in text


class NodeInfo(NamedTuple):
    node_id: int
    name: str
    last_activated_at: str = ""


class FakeGrid:
    """Each node answers what the test says."""

    def __init__(self, replies: dict[str, SiteReply]) -> None:
        self._nodes = [NodeInfo(i, name) for i, name in enumerate(replies, 100)]
        self._replies = {node.node_id: replies[node.name] for node in self._nodes}
        self._asked: dict[str, Message] = {}

    def get_nodes(self) -> list[NodeInfo]:
        return self._nodes

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        for message in messages:
            number = str(len(self._asked))
            message.metadata.__dict__["_message_id"] = number
            self._asked[number] = message
        return list(self._asked)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        asked = [self._asked[i] for i in message_ids]
        return [
            Message(reply_content(self._replies[m.metadata.dst_node_id], salt=5), reply_to=m)
            for m in asked
        ]


CONFIG = Config.model_validate(
    {
        "run": {"name": "toy", "rounds": 1},
        "eval": {"episodes": 4},
        "aggregate": {"deadline": 2.0},
        "clients": [{"name": name, "env": "elsewhere"} for name in NAMES],
    }
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(transport, "POLL_SECONDS", 0.01)
    with closing(Run(tmp_path / "run", CONFIG, SPEC, clock=time.time)) as opened:
        yield opened


def heard(run: Run, replies: dict[str, SiteReply]) -> dict[str, Delivery]:
    adapter = toy_adapter(SPEC, 9)
    request = Question(
        experiment="toy", round=1, agreed=run.config.agreed_digest(), spec=SPEC.identity,
        adapter=adapter.digest, kind="train", evaluate=True,
    )  # fmt: skip
    got = GridAsk(FakeGrid(replies), run, join_seconds=0.1)(request, adapter.to_bytes(), of=NAMES)
    return {delivery.client: delivery for delivery in got}


def vote(place: int) -> SiteReply:
    return SiteReply(ClientStats(played=1), toy_adapter(SPEC, place).to_bytes(), client=place)


@pytest.mark.parametrize("number", [Fault.PAUSED, Fault.VETOED, Fault.WITHHELD])
def test_a_paused_or_vetoing_site_abstains_and_the_others_decide(
    run: Run, tmp_path: Path, number: Fault
):
    measured = ClientStats(eval_played=4, eval_succeeded=1)
    replies = {
        "alpha": vote(0),
        "beta": SiteReply(measured, fault=number, client=1),
        "gamma": vote(2),
    }
    federate(run, GridAsk(FakeGrid(replies), run, join_seconds=0.1), clock=time.time)
    (result,) = run.results()
    assert result.voters == ("alpha", "gamma")
    assert result.abstained == ("beta",)
    assert (result.excluded, result.absent) == ((), ())
    assert run.evals(0)["beta"].eval_succeeded == 1
    told = (run.path / "events.jsonl").read_text()
    assert number.words in told
    with closing(Run(tmp_path / "without", CONFIG, SPEC, clock=time.time)) as without:
        alone = {name: reply for name, reply in replies.items() if name != "beta"}
        federate(without, GridAsk(FakeGrid(alone), without, join_seconds=0.1), clock=time.time)
        (expected,) = without.results()
    assert result.after == expected.after, "no bit depends on the one that abstained"


def test_an_abstention_cannot_smuggle_a_vote(run: Run):
    smuggled = SiteReply(ClientStats(), toy_adapter(SPEC, 1).to_bytes(), Fault.PAUSED, 1)
    assert heard(run, {"beta": smuggled})["beta"].adapter is None


@pytest.mark.parametrize("number", [f for f in Fault if f and not f.abstains])
def test_every_other_number_excludes_with_its_own_words(run: Run, number: Fault):
    got = heard(run, {"beta": SiteReply(ClientStats(), fault=number, client=1)})["beta"]
    assert got.fault.startswith(number.words)


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.PAUSED, Fault.VETOED, Fault.WITHHELD])
def test_a_node_speaks_for_the_site_it_was_enrolled_as_and_for_no_other(run: Run, fault: Fault):
    replies = {"alpha": vote(0), "beta": vote(2)._replace(fault=fault), "gamma": vote(2)}
    got = heard(run, replies)
    assert got["beta"].fault == "rejected: answered for gamma"
    assert got["gamma"].fault == ""
