"""What travels: round trips, hostile replies, and no byte of what an agent saw."""

import io
import math
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fedse.errors import WireError
from fedse.faults import Fault
from fedse.flower import client_app
from fedse.flower.client_app import FAILED, app
from fedse.flower.messages.bundle import write_app
from fedse.flower.messages.wire import (
    ADAPTER,
    FLOATS,
    INTEGERS,
    LEAST_SALT,
    NO_VOTE,
    RAW,
    REPLY,
    ROLES,
    read_reply,
    read_request,
    reply_content,
    request_content,
)
from fedse.protocol import SiteReply
from fedse.site import socket_client
from fedse.site.socket_client import ask_until_served
from fedse.types import Adapter, ClientStats
from tests.toys.canary_world import CANARY
from tests.toys.federation import SPEC, ServeToy, first_request, toy_config

STATS = ClientStats(
    played=6, succeeded=2, broken=1, added=2, buffered=9, loss=0.25, steps=4, eval_played=4,
    eval_succeeded=3, rollout_seconds=1.5, train_seconds=2.5, eval_seconds=0.5,
)  # fmt: skip
REPLIES = {
    "a vote": SiteReply(STATS, bytes(range(200)), client=3),
    "a vote of several roles": SiteReply(
        STATS.model_copy(update={"roles": (2.0, 1.0, 0.5, 0.1, 9.0, 0.2)}), b"a", client=3
    ),
    "no vote": SiteReply(STATS.model_copy(update={"loss": None}), client=0),
    "a fault": SiteReply(ClientStats(), fault=Fault.UNREACHABLE),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES.keys())
def test_a_reply_arrives_as_it_was_sent(reply: SiteReply):
    assert read_reply(reply_content(reply, salt=5), max_bytes=200) == reply


def test_a_request_arrives_as_it_was_sent(adapter: Adapter):
    request = first_request(toy_config(), adapter)
    content = request_content(request.model_dump(mode="json"), adapter.to_bytes())
    fields, data = read_request(content)
    assert type(request).model_validate(fields, strict=True) == request
    assert data == adapter.to_bytes()


def test_every_number_of_the_stats_travels():
    assert {*INTEGERS, *FLOATS, ROLES} == set(ClientStats.model_fields)
    assert "loss" in FLOATS


def changed(**numbers: object) -> Callable[[RecordDict], None]:
    def change(content: RecordDict) -> None:
        record = dict(content[REPLY])
        for name, value in numbers.items():
            record.pop(name, None) if value is None else record.update({name: value})
        content[REPLY] = MetricRecord(record)

    return change


def adapter_is(*arrays: Array, key: str = ADAPTER) -> Callable[[RecordDict], None]:
    def change(content: RecordDict) -> None:
        names = [key, *(f"{key}{i}" for i in range(1, len(arrays)))]
        content[ADAPTER] = ArrayRecord(dict(zip(names, arrays, strict=False)))

    return change


def raw(data: bytes, *, dtype: str = "uint8", shape: tuple[int, ...] | None = None, stype=RAW):
    return Array(dtype=dtype, shape=shape or (len(data),), stype=stype, data=data)


def without(key: str) -> Callable[[RecordDict], None]:
    return lambda content: content.pop(key)


def with_record(key: str, record: object) -> Callable[[RecordDict], None]:
    return lambda content: content.update({key: record})


HOSTILE = {
    "no numbers": without(REPLY),
    "no adapter record": without(ADAPTER),
    "a record too many": with_record("note", ConfigRecord({"text": "what the patient said"})),
    "numbers of another kind": lambda c: (c.pop(REPLY), c.update({REPLY: ConfigRecord({})})),
    "an adapter of another kind": lambda c: (c.pop(ADAPTER), c.update({ADAPTER: MetricRecord()})),
    "a number missing": changed(played=None),
    "a number too many": changed(secret=7),
    "no client": changed(client=None),
    "a client that is a fraction": changed(client=1.0),
    "a client below all": changed(client=-2),
    "a negative count": changed(played=-1),
    "a count that is a fraction": changed(succeeded=1.5),
    "a count beyond a float": changed(buffered=2**60),
    "a list where a number is": changed(played=[1, 2, 3]),
    "text in numbers": changed(played=[104, 101, 108, 108, 111]),
    "text in the figures of roles": changed(roles=[104, 101, 108, 108, 111]),
    "too many figures of roles": changed(roles=[0.5] * 2000),
    "a figure of a role that is NaN": changed(roles=[math.nan]),
    "one number for all roles": changed(roles=0.5),
    "loss NaN": changed(loss=math.nan),
    "loss infinite": changed(loss=math.inf),
    "loss a whole number": changed(loss=1),
    "seconds minus infinite": changed(train_seconds=-math.inf),
    "more successes than episodes": changed(succeeded=7),
    "more broken than episodes": changed(broken=7),
    "more replies without an action than replies": changed(unread=7),
    "more replies cut off than replies": changed(cut=7),
    "more eval successes than episodes": changed(eval_succeeded=5),
    "a negative fault": changed(fault=-1),
    "no array": adapter_is(),
    "two arrays": adapter_is(raw(b"a"), raw(b"b")),
    "an array of another name": adapter_is(raw(b"a"), key="adapter_config.json"),
    "a numpy file": adapter_is(raw(b"\x93NUMPY", stype="numpy.ndarray")),
    "another dtype": adapter_is(raw(b"abcd", dtype="float32")),
    "a shape that lies": adapter_is(raw(b"abcd", shape=(10**12,))),
    "an adapter too long": adapter_is(raw(bytes(201))),
    "an adapter of no bytes": adapter_is(raw(b"")),
    "no salt": changed(salt=None),
    "a vote that says it is none": adapter_is(raw(bytes(9), stype=NO_VOTE)),
}


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_reply_is_refused_in_the_servers_own_words(spoil):
    content = reply_content(REPLIES["a vote"], salt=5)
    spoil(content)
    with pytest.raises(WireError) as refusal:
        read_reply(content, max_bytes=200)
    assert "patient" not in str(refusal.value)


def test_replies_without_a_vote_have_no_object_in_common():
    """Flower names objects by their contents: who names another's first decides what it holds."""
    paused = SiteReply(ClientStats(), fault=Fault.PAUSED, client=3)
    one, other = (get_all_nested_objects(reply_content(paused, salt=s)) for s in (5, 6))
    assert len(one) == 5
    assert not set(one) & set(other)


@pytest.mark.usefixtures("task_identity")
def test_the_salt_of_a_reply_cannot_be_guessed(tmp_path: Path, adapter: Adapter, monkeypatch):
    monkeypatch.setattr(client_app, "PATIENCE", 0.0)
    message = asked(toy_config(), adapter)
    sent = [client_app.forward(message, context_of(tmp_path / "none.sock")) for _ in range(50)]
    salts = {content[REPLY]["salt"] for content in sent}
    assert len(salts) == 50
    assert all(LEAST_SALT <= salt < 2 * LEAST_SALT for salt in salts)


def test_nothing_but_the_salt_is_in_the_place_of_a_missing_adapter():
    content = reply_content(REPLIES["no vote"], salt=5)
    content[REPLY]["salt"] = 6
    with pytest.raises(WireError, match="else than the salt"):
        read_reply(content, max_bytes=200)


def sent_bytes(message: Message) -> bytes:
    """Every byte of a message as Flower puts it on the wire."""
    return b"".join(part.deflate() for part in get_all_nested_objects(message).values())


def context_of(socket: Path) -> Context:
    return Context(
        run_id=1, node_id=7, node_config={"site": str(socket)}, state=RecordDict(), run_config={}
    )


def asked(config, adapter: Adapter) -> Message:
    request = first_request(config, adapter).model_dump(mode="json")
    content = request_content(request, adapter.to_bytes())
    message = Message(content, dst_node_id=7, message_type="train", ttl=30.0)
    message.metadata.__dict__["_message_id"] = "1"
    return message


@pytest.mark.usefixtures("task_identity")
def test_the_canary_is_in_no_byte_a_site_sends(serve_toy: ServeToy, adapter, tmp_path: Path):
    config = toy_config(env="tests.toys.canary_world:CanaryWorld")
    reply = app(asked(config, adapter), context_of(serve_toy(config, "alpha")))
    got = read_reply(reply.content, max_bytes=SPEC.nbytes)
    assert got.fault == 0
    assert got.stats.succeeded > 0
    assert len(got.adapter) == SPEC.nbytes
    sent = sent_bytes(reply)
    assert got.adapter in sent, "these are the bytes that travel"
    assert CANARY.encode() not in sent
    home = b"".join(file.read_bytes() for file in (tmp_path / "alpha").iterdir())
    assert CANARY.encode() in home, "the site itself has seen it"


@pytest.mark.usefixtures("task_identity")
def test_a_broken_world_says_nothing_to_the_server(serve_toy: ServeToy, adapter: Adapter):
    config = toy_config(env="tests.toys.canary_world:CanaryWorld", breaks=True)
    reply = app(asked(config, adapter), context_of(serve_toy(config, "alpha")))
    got = read_reply(reply.content, max_bytes=SPEC.nbytes)
    assert (got.client, got.fault, got.stats) == (0, 4, ClientStats())
    assert CANARY.encode() not in sent_bytes(reply)


@pytest.mark.usefixtures("task_identity")
def test_an_exception_of_the_shim_leaves_as_one_fixed_text(adapter: Adapter):
    message = asked(toy_config(), adapter)
    message.content.pop(ADAPTER)
    with pytest.raises(RuntimeError) as failure:
        app(message, context_of(Path("/nowhere/secret-name.sock")))
    assert str(failure.value) == FAILED
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__


@pytest.mark.usefixtures("task_identity")
def test_a_site_without_a_worker_is_a_fault_of_that_site(
    adapter: Adapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(client_app, "PATIENCE", 0.0)
    reply = app(asked(toy_config(), adapter), context_of(tmp_path / "none.sock"))
    assert read_reply(reply.content, max_bytes=0).fault == Fault.UNREACHABLE


def test_the_shim_loads_neither_a_model_library_nor_a_store():
    code = "import sys, fedse.flower.client_app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "torch",
        "transformers",
        "peft",
        "fedse.store.buffer",
        "fedse.drivers.loop",
        "fedse.config.schema",
    }
    assert not heavy & set(done.stdout.split())


def test_the_bundle_holds_two_imports_and_no_run(tmp_path: Path):
    """A folder full of private things is submitted; none of them is in the bundle."""
    app_folder = write_app(tmp_path / "app")
    for name in ("runs/1/events.jsonl", "fedse_app/buffer.json", "notes.md", "fedse_app/x/y.py"):
        (app_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (app_folder / name).write_text(CANARY)
    bundle = build_fab_from_disk(app_folder)
    assert CANARY.encode() not in bundle
    with zipfile.ZipFile(io.BytesIO(bundle)) as packed:
        held = {name: packed.read(name) for name in packed.namelist()}
    assert set(held) == {
        ".info/CONTENT",
        "pyproject.toml",
        "fedse_app/__init__.py",
        "fedse_app/client.py",
        "fedse_app/server.py",
    }
    assert all(CANARY.encode() not in data for data in held.values())
    assert len(held["fedse_app/client.py"].splitlines()) == 3


def test_a_checkout_cannot_be_submitted_by_mistake():
    """Flower would pack every JSON and Markdown file that happens to lie in it."""
    with pytest.raises(ValueError, match=r"Missing \[tool\.flwr\.app\] section"):
        load_and_validate(Path(__file__).parents[3] / "pyproject.toml")


@pytest.mark.parametrize("fault", [Fault.UNREACHABLE, Fault.GARBLED])
def test_a_worker_that_comes_back_is_asked_again(fault: Fault, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket_client, "RETRY_SECONDS", 0.0)
    said = [SiteReply(ClientStats(), fault=fault)] * 3 + [SiteReply(ClientStats(), client=0)]
    assert ask_until_served(lambda: said.pop(0), patience=60.0, tries=9).fault == 0
    assert said == []


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.SETTINGS, Fault.SILENT, Fault.STALE])
def test_a_worker_that_answers_is_asked_once(fault: Fault):
    said = [SiteReply(ClientStats(), fault=fault, client=0)]
    assert ask_until_served(lambda: said.pop(0), patience=60.0, tries=9).fault == fault


def test_one_that_stays_away_is_a_fault_when_the_patience_is_over(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(socket_client, "RETRY_SECONDS", 0.01)
    away, began = [SiteReply(ClientStats(), fault=Fault.UNREACHABLE)], time.monotonic()
    assert ask_until_served(lambda: away[0], patience=0.2, tries=9).fault == Fault.UNREACHABLE
    assert time.monotonic() - began >= 0.2


def test_the_patience_begins_anew_after_an_ask_that_took_longer(monkeypatch: pytest.MonkeyPatch):
    """The worker had worked until it died: it is being started now, not away for long."""
    monkeypatch.setattr(socket_client, "RETRY_SECONDS", 0.0)
    faults, asked = [(Fault.UNREACHABLE, 0.0), (Fault.GARBLED, 0.3), (Fault.NONE, 0.0)], []

    def ask() -> SiteReply:
        fault, seconds = faults[len(asked)]
        asked.append(fault)
        time.sleep(seconds)
        return SiteReply(ClientStats(), fault=fault)

    assert ask_until_served(ask, patience=0.2, tries=9).fault == 0
    assert asked == [Fault.UNREACHABLE, Fault.GARBLED, 0]


def test_a_worker_that_dies_of_the_work_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket_client, "RETRY_SECONDS", 0.0)
    asked = []

    def dies() -> SiteReply:
        asked.append(1)
        return SiteReply(ClientStats(), fault=Fault.GARBLED)

    assert ask_until_served(dies, patience=1e9, tries=3).fault == Fault.GARBLED
    assert len(asked) == 3
