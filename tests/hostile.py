"""Replies no site of ours would send, each once, as data: what the tests and the table share.

A payload changes a sound reply of one client of five, in two dialects: ours, and that of an app of
stock Flower FedAvg (one numpy array per tensor, weighted by `num-examples`).
"""

import gzip
import io
import json
import math
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from fedse.adapters.base import initial_adapter
from fedse.config.aggregation import AggregateSection
from fedse.config.judging import EvalSection
from fedse.config.schema import ClientSection, Config, RolloutSection
from fedse.config.schema import RunSection as RunSection
from fedse.drivers.loop import federate
from fedse.flower.messages.wire import (
    ADAPTER,
    NO_VOTE,
    RAW,
    REPLY,
    SALT,
    read_request,
    reply_content,
)
from fedse.flower.server.transport import GridAsk
from fedse.protocol import SiteReply
from fedse.store.run import Run
from fedse.testing import toy_spec
from fedse.types import Adapter, ClientStats

SPEC = toy_spec()
START = initial_adapter(SPEC, seed=0)
NAMES = ("alpha", "beta", "delta", "epsilon", "gamma")
OFFENDER = "beta"
STATS = ClientStats(
    played=6, succeeded=2, broken=1, added=2, buffered=6, loss=0.25, steps=4, eval_played=4,
    eval_succeeded=3, rollout_seconds=1.5, train_seconds=2.5, eval_seconds=0.5,
)  # fmt: skip
AGGREGATES = {
    f"{type}, clip {clip}, step {step:g}": AggregateSection(
        type=type, clip=clip, step=step, strikes=0
    )
    for type in ("mean", "weighted")
    for clip in ("none", "median")
    for step in (1.0, 3.0)
}
A, B = (tensor.name for tensor in SPEC.tensors)
HEADER = SPEC.header
MAX_NORM = AggregateSection().max_norm

Change = Callable[[RecordDict], RecordDict | Error | None]
"""Spoils a reply in place, or gives what arrives instead of it."""


class Payload(NamedTuple):
    """One attack; `stock` is None where the other dialect has no such thing."""

    family: str
    ours: Change
    stock: Change | None = None
    strike: bool = True
    """Whether it breaks the rules for sure; a failure at the site or on the way does not."""


def config(aggregate: AggregateSection, *, rounds: int) -> Config:
    return Config(
        run=RunSection(name="toy", rounds=rounds),
        rollout=RolloutSection(episodes=6),
        eval=EvalSection(episodes=4),
        # A site that falls silent here never comes back.
        aggregate=aggregate.model_copy(update={"rejoin": 0.0}),
        clients=tuple(ClientSection(name=name, env="coin") for name in NAMES),
    )


def honest(current: Adapter, name: str, round: int) -> Adapter:
    """What a sound client sends: the adapter it was given, moved a little."""
    noise = np.random.default_rng([round, NAMES.index(name)]).standard_normal(SPEC.size)
    return Adapter(SPEC, (current.vector + 0.1 * noise).astype(np.float32))


def our_reply(name: str, adapter: Adapter) -> RecordDict:
    return reply_content(SiteReply(STATS, adapter.to_bytes(), client=NAMES.index(name)), salt=5)


def stock_reply(adapter: Adapter) -> RecordDict:
    arrays = {name: Array(np.array(tensor)) for name, tensor in adapter.tensors().items()}
    numbers = {"num-examples": 6, "played": 6, "succeeded": 2, "loss": 0.25}
    return RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord(numbers)})


# The same attack in both dialects: on the file of an adapter, on its numbers, on the records.


def put(data: bytes, *, dtype: str = "uint8", shape: tuple[int, ...] | None = None, stype=RAW):
    array = Array(
        dtype=dtype, shape=(len(data),) if shape is None else shape, stype=stype, data=data
    )
    return ArrayRecord({ADAPTER: array})


def our_file(change: Callable[[bytes], bytes]) -> Change:
    return lambda reply: reply.update({ADAPTER: put(change(reply[ADAPTER][ADAPTER].data))})


def stock_file(change: Callable[[bytes], bytes], *, says: dict | None = None) -> Change:
    def spoil(reply: RecordDict) -> None:
        was = reply["arrays"][A]
        fields = {"dtype": was.dtype, "shape": was.shape, "stype": was.stype, **(says or {})}
        reply["arrays"][A] = Array(data=change(was.data), **fields)

    return spoil


def file(change: Callable[[bytes], bytes], stock: Callable[[bytes], bytes] | None = None):
    return Payload("file", our_file(change), stock_file(stock or change))


def header(ours: Callable[[bytes], bytes], stock: Change | None = None) -> Payload:
    return Payload("header", our_file(ours), stock)


def numbers(change: Callable[[np.ndarray], object]) -> Payload:
    """`change` spoils the vector in place."""

    def vector_of(data: np.ndarray) -> np.ndarray:
        vector = data.astype("<f4")
        change(vector)
        return vector

    def ours(data: bytes) -> bytes:
        return HEADER + vector_of(np.frombuffer(data, "<f4", offset=len(HEADER))).tobytes()

    def stock(reply: RecordDict) -> None:
        arrays = reply["arrays"]
        vector = vector_of(np.concatenate([arrays[n].numpy().ravel() for n in (A, B)]))
        for tensor in SPEC.tensors:
            arrays[tensor.name] = Array(vector[SPEC.slices[tensor.name]].reshape(tensor.shape))

    return Payload("numbers", our_file(ours), stock)


def metric(key: str, **values: object) -> Change:
    """The numbers of the record at `key` are changed; None takes one out."""

    def spoil(reply: RecordDict) -> None:
        record = dict(reply[key])
        for name, value in values.items():
            name = name.replace("_", "-") if name == "num_examples" else name
            record.pop(name, None) if value is None else record.update({name: value})
        reply[key] = MetricRecord(record)

    return spoil


def counts(ours: dict[str, object], stock: dict[str, object] | None = None) -> Payload:
    return Payload("counts", metric(REPLY, **ours), stock and metric("metrics", **stock))


def replaced(key: str, record: object) -> Change:
    def spoil(reply: RecordDict) -> None:
        reply.pop(key, None)  # a record dict refuses another kind under a key it has
        reply[key] = record

    return spoil


def without(key: str) -> Change:
    def spoil(reply: RecordDict) -> None:
        reply.pop(key)

    return spoil


def records(ours: Change, stock: Change) -> Payload:
    return Payload("records", ours, stock)


def relabelled(**says: object) -> Change:
    """The adapter as it was, in an array that says something else of it."""
    return lambda reply: reply.update({ADAPTER: put(reply[ADAPTER][ADAPTER].data, **says)})


def moved(old: str, new: str) -> Change:
    return lambda reply: reply.update({new: reply.pop(old)})


def safetensors(entries: Sequence[tuple[str, str, object, object]], data: bytes, extra="") -> bytes:
    """A file with the header these entries say, which may be nonsense or name a tensor twice."""
    tight = partial(json.dumps, separators=(",", ":"))
    said = [
        f"{tight(name)}:" + tight({"dtype": d, "shape": s, "data_offsets": o})
        for name, d, s, o in entries
    ]
    text = ("{" + ",".join([f'"__metadata__":{{"format":"pt"{extra}}}', *said]) + "}").encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def remade(
    *entries: tuple[str, str, object, object], data: bytes = bytes(56), extra=""
) -> Callable:
    return lambda _: safetensors(entries, data, extra)


def npy(descr: str = "'<f4'", shape: str = "(2, 4)", data=bytes(32)) -> Change:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    made = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data
    return stock_file(lambda _: made)


def arrays(**changes: np.ndarray | None) -> Change:
    """Tensors of the stock reply replaced, added or taken out."""

    def spoil(reply: RecordDict) -> None:
        for name, value in changes.items():
            name = {"A": A, "B": B}.get(name, name)
            reply["arrays"].pop(name, None)
            if value is not None:
                reply["arrays"][name] = Array(value)

    return spoil


class _Evil:
    def __reduce__(self):
        return (exec, ("import sys; sys.pickle_ran = True",))


def _zip_bomb() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("arr_0.npy", bytes(20_000_000))
    return packed.getvalue()


EVIL = pickle.dumps(_Evil())
SIZED = SPEC.nbytes
FILES = {
    "one byte": file(lambda d: b"\0"),
    "last byte missing": file(lambda d: d[:-1]),
    "half": file(lambda d: d[: len(d) // 2]),
    "header only": file(lambda d: HEADER, lambda d: d[:128]),
    "one byte more": file(lambda d: d + b"\0"),
    "a megabyte more": file(lambda d: d + bytes(1 << 20)),
    "the file twice": file(lambda d: d + d),
    "one byte in front": file(lambda d: b"\0" + d),
    "shifted by one byte": file(lambda d: b"\0" + d[:-1]),
    "byte order mark": file(lambda d: b"\xef\xbb\xbf" + d),
    "all bytes zero": file(lambda d: bytes(len(d))),
    "all bytes 255": file(lambda d: b"\xff" * len(d)),
    "noise": file(lambda d: np.random.default_rng(1).bytes(len(d))),
    "pickle that runs code": file(lambda d: EVIL),
    "pickle of the right length": file(lambda d: EVIL.ljust(len(d), b".")),
    "zip bomb": file(lambda d: _zip_bomb()),
    "gzip of the file": file(lambda d: gzip.compress(d, mtime=0)),
    "deep JSON": file(lambda d: b"[" * 200_000),
    "deep JSON as header": file(
        lambda d: (SIZED - 8).to_bytes(8, "little") + b"[" * (SIZED - 8),
        lambda d: d[:10] + b"(" * (len(d) - 10),
    ),
    "error page": file(lambda d: b"<html><body>502 Bad Gateway</body></html>"),
    "first byte changed": file(lambda d: bytes([d[0] ^ 1]) + d[1:]),
    "one letter of the header changed": file(
        lambda d: d.replace(b"lora_A", b"lora_C"), lambda d: d.replace(b"descr", b"descs")
    ),
    "header length 2**64 - 1": file(
        lambda d: b"\xff" * 8 + d[8:], lambda d: d[:8] + b"\xff\xff" + d[10:]
    ),
    "header length 0": file(lambda d: bytes(8) + d[8:], lambda d: d[:8] + bytes(2) + d[10:]),
    "header length one less": file(
        lambda d: (len(HEADER) - 9).to_bytes(8, "little") + d[8:],
        lambda d: d[:8] + struct.pack("<H", len(d) - 33 - 10) + d[10:],
    ),
}
SOUND = ((A, "F32", [2, 4], [0, 32]), (B, "F32", [3, 2], [32, 56]))
_ONE = np.ones(1, np.float32)
HEADERS = {
    "dtype int32": header(
        lambda d: d.replace(b"F32", b"I32"), stock_file(lambda d: d.replace(b"<f4", b"<i4"))
    ),
    "dtype float16": header(
        remade((A, "F16", [2, 4], [0, 16]), (B, "F16", [3, 2], [16, 28]), data=bytes(28)),
        npy("'<f2'", data=np.full(8, 6e4, "<f2").tobytes()),
    ),
    "dtype float64": header(
        remade((A, "F64", [2, 4], [0, 64]), (B, "F64", [3, 2], [64, 112]), data=bytes(112)),
        npy("'<f8'", data=np.full(8, 1e9).tobytes()),
    ),
    "dtype complex": header(lambda d: d.replace(b"F32", b"C64"), npy("'<c8'", data=b"\x7f" * 64)),
    "dtype text": header(lambda d: d.replace(b"F32", b"STR"), npy("'<U1'", data=b"x\0\0\0" * 8)),
    "dtype object": header(lambda d: d.replace(b"F32", b"OBJ"), npy("'|O'", data=EVIL)),
    "code in the header": header(
        lambda d: d.replace(b'"F32"', b"exit()"), npy("__import__('os').abort()")
    ),
    "shape transposed": header(
        lambda d: d.replace(b"[2,4]", b"[4,2]"), npy(shape="(4, 2)", data=b"\x11" * 32)
    ),
    "shape flat": header(lambda d: d.replace(b"[2,4]", b"[8]  "), npy(shape="(8,)")),
    "shape of one number": header(
        remade((A, "F32", [1], [0, 4]), (B, "F32", [1], [4, 8]), data=bytes(8)), arrays(A=_ONE)
    ),
    "shape of one row": header(
        remade((A, "F32", [1, 4], [0, 16]), (B, "F32", [3, 2], [16, 40]), data=bytes(40)),
        arrays(A=np.ones((1, 4), np.float32)),
    ),
    "shape of 10**12 numbers": header(
        remade((A, "F32", [10**12], [0, 32]), SOUND[1]), npy(shape="(1000000000000,)")
    ),
    "shape negative": header(
        remade((A, "F32", [-2, -4], [0, 32]), SOUND[1]), npy(shape="(-2, -4)")
    ),
    "order of axes changed": header(
        remade((A, "F32", [2, 4], [0, 32]), SOUND[1], extra=',"order":"F"'),
        stock_file(lambda d: d.replace(b"False", b"True ")),
    ),
    "tensors in another order": header(
        remade((B, "F32", [3, 2], [0, 24]), (A, "F32", [2, 4], [24, 56]))
    ),
    "a tensor named twice": header(remade(SOUND[0], *SOUND)),
    "offsets negative": header(remade((A, "F32", [2, 4], [-32, 0]), SOUND[1])),
    "offsets overlap": header(remade(SOUND[0], (B, "F32", [3, 2], [16, 40]))),
    "offsets with a hole": header(remade(SOUND[0], (B, "F32", [3, 2], [40, 64]), data=bytes(64))),
    "offsets beyond the end": header(remade(SOUND[0], (B, "F32", [3, 2], [2**40, 2**40 + 24]))),
    "offsets off by one": header(lambda d: d.replace(b"[0,32]", b"[1,32]")),
    "text in the metadata": header(remade(*SOUND, extra=',"note":"what the patient said"')),
    "a weight of the base model": header(
        remade(*SOUND, ("lm_head.weight", "F32", [1], [56, 60]), data=bytes(60)),
        arrays(**{"lm_head.weight": _ONE}),
    ),
    "a tensor missing": header(remade(SOUND[0], data=bytes(32)), arrays(B=None)),
    "a tensor renamed": header(
        lambda d: d.replace(b"layer.lora_B", b"lm_head.lora"),
        arrays(B=None, **{"lm_head.weight": np.ones((3, 2), np.float32)}),
    ),
    "another rank": header(
        remade((A, "F32", [3, 4], [0, 48]), (B, "F32", [3, 3], [48, 84]), data=bytes(84)),
        arrays(A=np.ones((3, 4), np.float32), B=np.ones((3, 3), np.float32)),
    ),
    "no numbers at all": header(
        remade((A, "F32", [0, 4], [0, 0]), (B, "F32", [3, 0], [0, 0]), data=b""),
        arrays(A=np.ones((0, 4), np.float32), B=np.ones((3, 0), np.float32)),
    ),
    "spaces in the header": header(
        lambda d: d[:8] + b" " + d[8 : len(HEADER) - 1] + d[len(HEADER) :]
    ),
}


def _set(place: int | slice, value: float) -> Callable[[np.ndarray], None]:
    return lambda vector: vector.__setitem__(place, value)


def _signalling(vector: np.ndarray) -> None:
    vector.view("<u4")[3] = 0x7F800001


def _gauge(vector: np.ndarray) -> None:
    vector[:8] *= 1e6
    vector[8:] /= 1e6


OUTSIDE = float(np.nextafter(np.float32(MAX_NORM), np.float32(np.inf)))
NUMBERS = {
    "one NaN": numbers(_set(0, math.nan)),
    "NaN in the last place": numbers(_set(13, math.nan)),
    "all NaN": numbers(_set(slice(None), math.nan)),
    "a signalling NaN": numbers(_signalling),
    "infinity": numbers(_set(5, math.inf)),
    "minus infinity": numbers(_set(3, -math.inf)),
    "both infinities": numbers(lambda v: (_set(0, math.inf)(v), _set(1, -math.inf)(v))),
    "the largest float": numbers(_set(13, 3.4028235e38)),
    "all of them the largest float": numbers(_set(slice(None), 3.4028235e38)),
    "1e30 in A": numbers(_set(0, 1e30)),
    "-1e30 in B": numbers(_set(13, -1e30)),
    "A just outside the bound": numbers(lambda v: (v.fill(0), _set(0, OUTSIDE)(v))),
    "B just outside the bound": numbers(lambda v: (v.fill(0), _set(13, -OUTSIDE)(v))),
    "every number inside, the norm not": numbers(_set(slice(None), 0.9 * MAX_NORM)),
    "A a million times, B a millionth": numbers(_gauge),
    "a million times the adapter": numbers(lambda v: v.__imul__(1e6)),
    "bytes of each number reversed": numbers(lambda v: v.byteswap(inplace=True)),
}
_TEXT = ConfigRecord({"text": "what the patient said"})
_ARRAYS = ArrayRecord({A: Array(np.ones((2, 4), np.float32))})
RECORDS = {
    "nothing": records(lambda r: r.clear(), lambda r: r.clear()),
    "no numbers": records(without(REPLY), without("metrics")),
    "no adapter": records(without(ADAPTER), without("arrays")),
    "a record of text too many": records(replaced("note", _TEXT), replaced("note", _TEXT)),
    "a second record of arrays": records(replaced("more", _ARRAYS), replaced("more", _ARRAYS)),
    "a second record of numbers": records(
        replaced("more", MetricRecord({"x": 1})), replaced("more", MetricRecord({"x": 1}))
    ),
    "text where numbers belong": records(replaced(REPLY, _TEXT), replaced("metrics", _TEXT)),
    "numbers where the adapter belongs": records(
        replaced(ADAPTER, MetricRecord({})), replaced("arrays", MetricRecord({}))
    ),
    "numbers under another name": records(moved(REPLY, "replies"), moved("metrics", "numbers")),
    "adapter under another name": records(moved(ADAPTER, "arrays"), moved("arrays", "adapter")),
    "no array": records(replaced(ADAPTER, ArrayRecord()), replaced("arrays", ArrayRecord())),
    "an array too many": records(
        lambda r: r[ADAPTER].update({"adapter_config.json": Array(_ONE)}), arrays(more=_ONE)
    ),
    "a serialisation nobody agreed on": records(
        relabelled(stype="numpy.ndarray"),
        stock_file(lambda d: d, says={"stype": "pickle"}),
    ),
    "a dtype that lies": records(
        relabelled(dtype="float32"),
        stock_file(lambda d: d, says={"dtype": "int8"}),
    ),
    "a shape that lies": records(
        relabelled(shape=(10**12,)),
        stock_file(lambda d: d, says={"shape": (10**12,)}),
    ),
    "no shape": records(relabelled(shape=()), stock_file(lambda d: d, says={"shape": ()})),
}
COUNTS = {
    "a number missing": counts({"played": None}, {"num_examples": None}),
    "a number too many": counts({"secret": 7}, {"secret": 7}),
    "a list where a number is": counts({"buffered": [1, 2]}, {"num_examples": [1, 2]}),
    "text spelled in numbers": counts({"played": [104, 105]}, {"played": [104, 105]}),
    "an empty list": counts({"buffered": []}, {"num_examples": []}),
    "a negative count": counts({"buffered": -5}, {"num_examples": -5}),
    "a count that cancels the others": counts({"buffered": -24}, {"num_examples": -24}),
    "a count beyond what a float holds": counts({"buffered": 2**60}, {"num_examples": 2**60}),
    "a count NaN": counts({"buffered": math.nan}, {"num_examples": math.nan}),
    "a count infinite": counts({"buffered": math.inf}, {"num_examples": math.inf}),
    "a count that is a fraction": counts({"played": 1.5}, {"played": 1.5}),
    "loss NaN": counts({"loss": math.nan}, {"loss": math.nan}),
    "loss infinite": counts({"loss": math.inf}, {"loss": math.inf}),
    "loss 1e300": counts({"loss": 1e300}, {"loss": 1e300}),
    "seconds minus infinite": counts({"train_seconds": -math.inf}),
    "more successes than episodes": counts({"succeeded": 7}, {"succeeded": 7}),
    "more broken than episodes": counts({"broken": 7}),
    "more truncated than episodes": counts({"truncated": 7}),
    "more held-out successes than episodes": counts({"eval_succeeded": 5}),
    "more episodes than asked for": counts({"played": 7}, {"played": 7}),
    "more held-out episodes than asked for": counts({"eval_played": 5}),
}


def _unreadable(reply: RecordDict) -> None:
    raise ValueError("bytes that Flower itself cannot read")


def _error(code: int) -> Change:
    return lambda reply: Error(code, "ward 7, what the patient said")


WHO = {
    "a member that does not exist": Payload("who", metric(REPLY, client=5)),
    "a member below all": Payload("who", metric(REPLY, client=-2)),
    "a member that is a fraction": Payload("who", metric(REPLY, client=1.0)),
    "in the name of another member": Payload("who", metric(REPLY, client=0)),
    "a fault and an adapter": Payload("who", metric(REPLY, fault=4), strike=False),
    "a negative fault": Payload("who", metric(REPLY, fault=-1)),
    "an error with text": Payload("who", _error(2), _error(2), strike=False),
    "an error of no known kind": Payload("who", _error(77), _error(77), strike=False),
    "a reply Flower cannot read": Payload("who", _unreadable, strike=False),
    "the global adapter of an earlier round": Payload("who", our_file(lambda d: START.to_bytes())),
}
PAYLOADS: dict[str, Payload] = {**FILES, **HEADERS, **NUMBERS, **RECORDS, **COUNTS, **WHO}


def _no_vote(reply: RecordDict) -> None:
    salt = int(reply[REPLY][SALT])
    reply.update({ADAPTER: put(salt.to_bytes(8, "little"), stype=NO_VOTE)})


LEGAL = {
    "all zeros": numbers(lambda v: v.fill(0)),
    "all minus zero": numbers(lambda v: v.fill(-0.0)),
    "denormals": numbers(lambda v: v.fill(1e-45)),
    "A exactly at the bound": numbers(lambda v: (v.fill(0), _set(0, MAX_NORM)(v))),
    "both factors at the bound": numbers(lambda v: (v.fill(0), _set([0, 13], -MAX_NORM)(v))),
    "a thousand times the adapter": numbers(lambda v: v.__imul__(1e3)),
    "the sign flipped": numbers(lambda v: v.__imul__(-1)),
    "2**53 lessons claimed": counts({"buffered": 2**53}),
    "lessons claimed and no adapter": Payload("file", _no_vote, stock_file(lambda d: b"")),
    "an adapter from no lesson": counts({"buffered": 0}),
}
"""Bad advice that keeps to the rules; what it can do is bounded, not nothing."""


def bytes_of(payload: Payload, adapter: Adapter) -> bytes | None:
    """The adapter's bytes in a spoiled reply, where the attack is on them."""
    if payload.family not in ("file", "header", "numbers"):
        return None
    reply = our_reply(OFFENDER, adapter)
    payload.ours(reply)
    data: bytes = reply[ADAPTER][ADAPTER].data
    return data


class Node(NamedTuple):
    node_id: int
    name: str
    last_activated_at: str = ""


class Sites:
    """A grid of five sites; one of them spoils its reply by what `spoil` gives for the round."""

    def __init__(self, spoil: Callable[[int], Change | None], *, silent_after: int) -> None:
        self._spoil, self._silent_after = spoil, silent_after
        self._asked: dict[str, Message] = {}
        self._round = 1

    def get_nodes(self) -> list[Node]:
        """The offender comes first, where a careless server takes its word for what is usual."""
        silent = self._round > self._silent_after
        order = (*(() if silent else (OFFENDER,)), *(n for n in NAMES if n != OFFENDER))
        return [Node(place, name) for place, name in enumerate(order, start=silent)]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names = {node.node_id: node.name for node in self.get_nodes()}
        self._asked = {}
        for message in messages:
            name = names.get(message.metadata.dst_node_id)
            if name is None:
                continue  # refused, as Flower does where a node has gone since they were listed
            message.metadata.__dict__["_message_id"] = name
            self._asked[name] = message
        self._round += 1
        return list(self._asked)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._answer(name) for name in message_ids]

    def _answer(self, name: str) -> Message:
        message = self._asked[name]
        request, data = read_request(message.content)
        round = int(str(request["round"]))
        current = Adapter(SPEC, np.frombuffer(data, "<f4", offset=len(HEADER)))
        reply = our_reply(name, honest(current, name, round))
        spoil = self._spoil(round) if name == OFFENDER else None
        return Message((spoil(reply) if spoil else None) or reply, reply_to=message)


def play(run: Run, spoil: Callable[[int], Change | None], *, silent_after: int = 10**9) -> Adapter:
    """The whole run on a grid with one site that spoils its replies, or falls silent."""
    sites = Sites(spoil, silent_after=silent_after)
    ask = GridAsk(sites, run, join_seconds=0)
    return federate(run, ask, clock=lambda: 0.0, timer=lambda: 0.0)


def open_run(folder: Path, aggregate: AggregateSection, *, rounds: int, observers=()) -> Run:
    settings = config(aggregate, rounds=rounds)
    return Run(folder, settings, SPEC, clock=lambda: 0.0, observers=observers)


class Fate(NamedTuple):
    """What became of a payload: `excluded` is the only good one."""

    outcome: str
    reason: str


def fates(aggregate: AggregateSection, folder: Path) -> dict[str, Fate]:
    """One run that gets all payloads, one per round from the second on, beside one without."""
    names, fate = list(PAYLOADS), {}

    def spoil(round: int) -> Change | None:
        return PAYLOADS[names[round - 2]].ours if 2 <= round <= len(names) + 1 else None

    rounds = len(names) + 1
    with (
        closing(open_run(folder / "with", aggregate, rounds=rounds)) as run,
        closing(open_run(folder / "without", aggregate, rounds=rounds)) as reference,
    ):
        play(reference, lambda round: None, silent_after=1)
        death = ""
        try:
            play(run, spoil)
        except Exception as error:
            death = repr(error)
        for with_it, without in zip(run.results(), reference.results(), strict=False):
            if with_it.index > 1:
                named = {e.client: e.text for e in with_it.excluded}
                same = with_it.after == without.after and set(named) == {OFFENDER}
                outcome = "excluded" if same else "poisoned or unnamed"
                fate[names[with_it.index - 2]] = Fate(outcome, named.get(OFFENDER, ""))
    for name in names[len(fate) :]:
        fate[name] = Fate("dies", death)
    return fate
