import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedse.lazy import Lazy
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, Task, Trajectory, Turn, canonical_json, digest_of
from tests.needs import needs

TASK = Task(env="maze", id="u/1,1", split="train")


def episode(**changes: object) -> Trajectory:
    facts = {"seed": 1, "turns": (), "outcome": "success", "reward": 1.0, "policy": "p", "round": 1}
    return Trajectory(task=TASK, **{**facts, **changes})


def test_records_are_frozen_and_refuse_unknown_fields():
    with pytest.raises(ValidationError):
        TASK.id = "other"
    with pytest.raises(ValidationError):
        Task(env="maze", id="1", split="train", colour="red")


def test_equal_content_is_an_equal_digest():
    assert TASK.digest == Task(split="train", id="u/1,1", env="maze").digest
    assert TASK.digest != Task(env="maze", id="u/1,2", split="train").digest


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_canonical_json_is_what_signatures_and_digests_were_made_of(value: object):
    """Ledgers, invitations and adapters that exist were signed and named by these bytes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    assert canonical_json(value) == text.encode() == text.encode("ascii")
    assert digest_of(value) == hashlib.sha256(text.encode()).hexdigest()
    assert canonical_json(json.loads(canonical_json(value))) == canonical_json(value)


@given(st.dictionaries(st.text(max_size=9), JSON, max_size=4))
def test_canonical_json_knows_no_order(value: dict[str, object]):
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def test_canonical_json_exactly():
    assert canonical_json({"b": [1, None, 0.1], "a": "\u00e9\n"}) == (
        b'{"a":"\\u00e9\\n","b":[1,null,0.1]}'
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def test_the_loss_mask_is_true_on_the_agents_tokens_only():
    turns = (
        Turn(observation="a", action="b", context_ids=(1, 2, 3), action_ids=(4, 5)),
        Turn(observation="c", action="d", context_ids=(6,), action_ids=(7,)),
    )
    played = episode(turns=turns)
    assert played.token_ids == (1, 2, 3, 4, 5, 6, 7)
    assert played.loss_mask == (False, False, False, True, True, False, True)


def test_a_digest_is_of_canonical_json():
    """Sorted keys, no spaces, plain ASCII; and no number that JSON does not have."""
    text = b'{"a":[1,2.5,null],"b":{"c":"\\u00e9","d":true}}'
    expected = hashlib.sha256(text).hexdigest()
    assert digest_of({"b": {"d": True, "c": "é"}, "a": [1, 2.5, None]}) == expected
    assert digest_of({"a": [1, 2.5, None], "b": {"c": "é", "d": True}}) == expected
    with pytest.raises(ValueError, match="JSON compliant"):
        digest_of(float("nan"))


def test_what_was_seen_belongs_to_the_deed():
    seen = [episode(turns=(Turn(observation=o, action="a"),)).content_digest for o in "xy"]
    assert seen[0] != seen[1]


def test_the_same_deeds_are_the_same_element_of_the_buffer():
    turn = Turn(observation="o", action="a")
    first = episode(turns=(turn,), round=1, policy="x", seed=1)
    later = episode(turns=(turn,), round=7, policy="y", seed=2)
    other = episode(turns=(Turn(observation="o", action="b"),))
    assert first.content_digest == later.content_digest != other.content_digest
    assert first.digest != later.digest


@given(text=st.text(), ids=st.lists(st.integers(0, 2**31), max_size=5))
def test_a_trajectory_survives_json(text: str, ids: list[int]):
    turn = Turn(observation=text, action=text, context_ids=tuple(ids), action_ids=tuple(ids))
    played = episode(turns=(turn,))
    assert Trajectory.model_validate_json(played.model_dump_json()) == played


def test_an_adapter_is_a_safetensors_file():
    spec = toy_spec()
    data = toy_adapter(spec, 3).to_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert (8 + length) % 8 == 0
    assert len(data) == spec.nbytes == 8 + length + 4 * spec.size
    assert header[spec.tensors[0].name] == {
        "dtype": "F32",
        "shape": [2, 4],
        "data_offsets": [0, 32],
    }


@pytest.mark.parametrize("outputs", range(1, 9))
@pytest.mark.parametrize("rank", [1, 10, 100, 1000])
def test_the_numbers_begin_at_a_multiple_of_eight(rank: int, outputs: int):
    """Whatever length the header has; these have all remainders."""
    spec = toy_spec(rank=rank, outputs=outputs)
    assert len(spec.header) % 8 == 0
    assert 0 <= len(spec.header) - len(spec.header.rstrip(b" ")) < 8


def test_safetensors_reads_what_we_write():
    needs("safetensors")
    from safetensors.numpy import load

    adapter = toy_adapter(toy_spec(), 3)
    read = load(adapter.to_bytes())
    assert read.keys() == adapter.tensors().keys()
    for name, tensor in adapter.tensors().items():
        np.testing.assert_array_equal(read[name], tensor)


def test_an_adapter_cannot_be_changed_or_misfit():
    adapter = toy_adapter(toy_spec(), 3)
    with pytest.raises(ValueError, match="read-only"):
        adapter.vector[0] = 1
    with pytest.raises(ValueError, match="expected 14 float32"):
        Adapter(toy_spec(), np.zeros(3, dtype=np.float32))


def test_a_lazy_sequence_makes_what_is_looked_at():
    made: list[int] = []
    lazy = Lazy(5, lambda place: made.append(place) or place * 10)
    assert (len(lazy), lazy[-1], lazy[1:3], made) == (5, 40, [10, 20], [4, 1, 2])
    assert list(lazy) == [0, 10, 20, 30, 40]
    with pytest.raises(IndexError):
        lazy[5]
    made.clear()
    remembering = Lazy(5, lambda place: made.append(place) or place, remembered=2)
    assert [remembering[place] for place in (0, 1, 0, 2, 1)] == [0, 1, 0, 2, 1]
    assert made == [0, 1, 2, 1]
