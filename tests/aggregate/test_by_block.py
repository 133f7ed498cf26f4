"""The algebra of a merge by block: each block as if it were federated alone, by those who have it.

The reference is computed per block, with adapters that have no blocks at all.
"""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.drift import drift_of
from fedse.aggregate.factors import (
    as_it_leaves,
    layout_of,
    narrowed,
    travelling_spec,
    vote_bytes,
    with_resting_factor,
)
from fedse.aggregate.validate import require_layout
from fedse.blocks import block_adapter, in_blocks, span_of
from fedse.config.schema import Config
from fedse.errors import AdapterRejected
from fedse.method.rounds import server_round
from fedse.method.site import Answer, Merged
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, AdapterSpec, ClientStats
from tests.toys.aggregators import TWO

BARE = toy_spec()
ROLES = ("act", "check", "plan")
SPEC = in_blocks(BARE, ROLES)
CURRENT = toy_adapter(SPEC, 0)
NAMES = "abcd"
WAYS = pytest.mark.parametrize(
    ("kind", "clip"), [("mean", "none"), ("mean", "median"), ("weighted", "median"), (TWO, "none")]
)

acting = st.lists(st.sampled_from(ROLES), unique=True, min_size=1).map(tuple)
voters = st.dictionaries(st.sampled_from(NAMES), acting, min_size=1)


def config(kind: str = "mean", clip: str = "none", **sections: Any) -> Config:
    aggregate = {"type": kind, "clip": clip, "step": 1.3}
    clients = [{"name": name, "env": "coin"} for name in NAMES]
    return Config.model_validate({"aggregate": aggregate, "clients": clients, **sections})


def roles(**given: Any) -> dict[str, Any]:
    return {"names": ROLES, "policy": "isolated", **given}


def vote_of(name: str) -> Adapter:
    return toy_adapter(SPEC, ord(name), scale=1 + NAMES.index(name))


def answer_of(name: str, adapter: Adapter, blocks: Sequence[str] = ()) -> Answer:
    stats = ClientStats(buffered=1 + ord(name) % 5)
    return Answer(name, stats, adapter.to_bytes, blocks=tuple(blocks))


def merged(given: Mapping[str, Sequence[str]], settings: Config, **kept: Any) -> Merged:
    votes = [answer_of(name, vote_of(name), blocks) for name, blocks in given.items()]
    return server_round(CURRENT, votes, settings, **kept)


@WAYS
@given(given=voters, again=voters)
def test_each_block_is_merged_as_if_it_were_alone(
    kind: str, clip: str, given: dict[str, tuple[str, ...]], again: dict[str, tuple[str, ...]]
):
    """Two rounds, so that what is remembered counts as well."""
    settings = config(kind, clip)
    first = merged(given, settings)
    votes = [answer_of(name, vote_of(name), blocks) for name, blocks in again.items()]
    second = server_round(first.adapter, votes, settings, moments=first.moments)
    assert (second.blocks, second.voters) == (again, tuple(sorted(again)))
    for block in ROLES:
        current, moments = block_adapter(CURRENT, block), ()
        for told, whole in ((given, first), (again, second)):
            own = [
                answer_of(name, block_adapter(vote_of(name), block))
                for name, blocks in told.items()
                if block in blocks
            ]
            if own:
                alone = server_round(current, own, settings, moments=moments)
                current, moments = alone.adapter, alone.moments
            assert block_adapter(whole.adapter, block).digest == current.digest
        found = [block_adapter(one, block).digest for one in second.moments]
        zero = Adapter(BARE, np.zeros(BARE.size, np.float32))
        assert found == [one.digest for one in moments or [zero] * len(found)]


@WAYS
@given(given=voters, block=st.sampled_from(ROLES), seed=st.integers(1, 10**6))
def test_what_a_vote_has_beside_its_blocks_is_nothing(
    kind: str, clip: str, given: dict[str, tuple[str, ...]], block: str, seed: int
):
    plain, noise = merged(given, config(kind, clip)), toy_adapter(SPEC, seed, scale=10.0)
    votes = []
    for name, blocks in given.items():
        vector = vote_of(name).vector.copy()
        if block not in blocks:
            vector[span_of(SPEC, block)] = noise.vector[span_of(SPEC, block)]
        votes.append(answer_of(name, Adapter(SPEC, vector), blocks))
    found = server_round(CURRENT, votes, config(kind, clip))
    assert found.adapter.digest == plain.adapter.digest
    assert [m.digest for m in found.moments] == [m.digest for m in plain.moments]


@given(given=voters)
def test_the_order_of_votes_does_not_matter(given: dict[str, tuple[str, ...]]):
    votes = [answer_of(name, vote_of(name), blocks) for name, blocks in given.items()]
    found = {
        server_round(CURRENT, order, config(clip="median")).adapter.digest
        for order in permutations(votes)
    }
    assert len(found) == 1


@given(given=voters)
def test_where_all_are_on_all_a_mean_that_clips_nothing_is_that_of_whole_adapters(
    given: dict[str, tuple[str, ...]],
):
    flat = AdapterSpec.model_validate({**SPEC.model_dump(), "blocks": ()})
    start = Adapter(flat, CURRENT.vector.copy())
    votes = [answer_of(n, Adapter(flat, vote_of(n).vector.copy())) for n in given]
    whole = server_round(start, votes, config())
    by_block = merged(dict.fromkeys(given, ROLES), config())
    assert by_block.adapter.vector.tobytes() == whole.adapter.vector.tobytes()


@given(blocks=acting, factors=st.sampled_from(["both", "b"]))
def test_a_vote_names_its_blocks_in_its_header_and_has_no_others(
    blocks: tuple[str, ...], factors: str
):
    clients = [{"name": "a", "env": "coin", "roles": blocks}, {"name": "b", "env": "coin"}]
    settings = config(clients=clients, roles=roles(), train={"factors": factors})
    part = travelling_spec(SPEC, settings)
    sent = vote_bytes(vote_of("a"), settings, "a")
    layout = layout_of(sent, part)
    require_layout(sent, layout)
    assert set(layout.blocks) == set(blocks)
    assert layout == narrowed(part, blocks)
    assert len(sent) == len(layout.header) + len(blocks) * (part.size // len(ROLES)) * 4


WRONG = {
    "another block": lambda good: good.replace(b'"plan/', b'"plot/'),
    "no block": lambda good: narrowed(SPEC, ["x"]).header,
    "cut": lambda good: good[:-4],
    "empty": lambda good: b"",
    "a header without end": lambda good: b"\xff" * 8 + good[8:],
    "a local block": lambda good: vote_of("a").to_bytes(),
}


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG.keys())
def test_a_vote_on_anything_else_is_refused(spoil):
    settings = config(roles=roles(local=["check"]))
    part = travelling_spec(SPEC, settings)
    wrong = spoil(vote_bytes(vote_of("a"), settings, "a"))
    with pytest.raises(AdapterRejected):
        require_layout(wrong, layout_of(wrong, part))


def test_the_error_of_merging_factors_is_that_of_who_voted():
    """One voter on a block has none there, whatever the others have."""
    votes = {name: (lambda name=name: vote_of(name)) for name in "ab"}
    alone = {"a": ("plan",), "b": ("act", "check")}
    both = dict.fromkeys(votes, ROLES)
    assert drift_of(CURRENT, CURRENT, votes, alone).merge_error == pytest.approx(0, abs=1e-6)
    assert drift_of(CURRENT, CURRENT, votes, both).merge_error > 0.1


@given(blocks=acting)
def test_what_others_learn_of_a_trained_adapter_is_what_its_vote_has(blocks: tuple[str, ...]):
    clients = [{"name": "a", "env": "coin", "roles": blocks}, {"name": "b", "env": "coin"}]
    settings = config(clients=clients, roles=roles())
    sent = vote_bytes(vote_of("a"), settings, "a")
    whole = with_resting_factor(sent, layout_of(sent, SPEC), CURRENT)
    assert as_it_leaves(vote_of("a"), CURRENT, settings, "a").to_bytes() == whole
