"""What can leave a client is decided by types, and the types are inspected here."""

import dataclasses
import types
import typing

import numpy as np

from fedse.types import Adapter, AdapterSpec, ClientStats, ClientUpdate

NUMBERS = (int, float, bool, type(None))


def leaves(kind: object) -> set[object]:
    """Every plain type a value of `kind` can hold, at any depth."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType, tuple):
        parts = [part for part in typing.get_args(kind) if part is not ...]
        return set().union(*map(leaves, parts))
    if kind is Adapter:
        return {np.float32}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return set().union(*(leaves(hints[field.name]) for field in dataclasses.fields(kind)))
    if isinstance(kind, type) and hasattr(kind, "model_fields"):
        return set().union(*(leaves(f.annotation) for f in kind.model_fields.values()))
    return {kind}


def test_no_field_of_an_update_can_hold_text():
    assert leaves(ClientUpdate) <= {np.float32, *NUMBERS}
    assert leaves(ClientStats) <= set(NUMBERS)


def test_the_check_would_find_text():
    @dataclasses.dataclass
    class Leaky:
        stats: ClientStats
        note: str | None

    assert str in leaves(Leaky)


def test_the_bytes_of_an_adapter_are_the_specs_header_and_numbers():
    """Nothing but the vector varies in what is sent, so nothing but the vector can carry news."""
    from fedse.testing import toy_adapter, toy_spec

    spec: AdapterSpec = toy_spec()
    for seed in range(3):
        data = toy_adapter(spec, seed).to_bytes()
        assert data.startswith(spec.header)
        assert len(data) == len(spec.header) + 4 * spec.size
