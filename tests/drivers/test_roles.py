"""Whole runs of sites with different roles, in every way to merge and on one machine or in secret.

Who votes on which block is on record, and from the sites' own answers and that record a second
machine computes every adapter.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.needs import needs

needs("cryptography", "Crypto")

from fedse.aggregate.factors import layout_of, travelling_spec, with_resting_factor
from fedse.aggregate.validate import cap_lessons
from fedse.blocks import in_blocks, span_of
from fedse.committed import RoundResult
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.drivers.gating import partway
from fedse.drivers.run import run_local
from fedse.ledger.entries import round_entries
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.method.rounds import server_round
from fedse.method.site import Answer
from fedse.secure_sum.fixed_point import FixedPoint
from fedse.store.buffer import Buffer
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from tests.toys.aggregators import ONE

ROLES = ("act", "check", "plan")
SPEC = in_blocks(toy_spec(), ROLES)
ACTING: Mapping[str, tuple[str, ...]] = {
    "a": (),
    "b": ("act", "check"),
    "c": ("act",),
    "d": ("plan", "act"),
    "e": ("plan", "check"),
}
BARE = {name: told or ROLES for name, told in ACTING.items()}


def config(names: tuple[str, ...] = ROLES, **changes: object) -> Config:
    plain = {
        "run": {"name": "toy", "rounds": 3},
        "roles": {"names": names, "policy": "isolated"},
        "rollout": {"episodes": 6},
        "eval": {"episodes": 2},
        "clients": [
            {"name": name, "env": "fedse.testing:CoinWorld", "roles": roles}
            for name, roles in ACTING.items()
        ],
    }
    return with_settings(Config.model_validate(plain), changes)


class Played:
    """A run on this machine that is over, and what it left."""

    def __init__(self, path: Path, given: Config) -> None:
        self.path, self.config = path, given
        with self.opened() as run:
            self.final = run_local(run, clock=lambda: 0.0, open_site=open_toy_site)
        with self.opened() as run:
            self.results: list[RoundResult] = [*run.results()]
            self.adapters = [run.adapter(index) for index in range(len(self.results) + 1)]
            self.moments = [run.moments(index) for index in range(len(self.results) + 1)]

    @contextmanager
    def opened(self) -> Iterator[Run]:
        spec = in_blocks(toy_spec(), self.config.roles.blocks)
        with closing(Run(self.path, self.config, spec, clock=lambda: 0.0)) as run:
            yield run

    def sent(self, client: str, round: int) -> bytes | None:
        query = "SELECT adapter FROM outbox WHERE kind = 'train' AND round = ?"
        with closing(sqlite3.connect(self.path / "clients" / client / "buffer.db")) as db:
            return db.execute(query, (round,)).fetchone()[0]

    def changed(self, index: int) -> set[str]:
        """The blocks that the round changed."""
        before, after = (self.adapters[at].vector for at in (index - 1, index))
        return {
            b for b in SPEC.blocks if np.any(before[span_of(SPEC, b)] != after[span_of(SPEC, b)])
        }


CHANGES: list[dict[str, object]] = [
    {},
    {"aggregate.clip": "none", "train.factors": "b"},
    {"aggregate.type": "weighted"},
    {"aggregate.type": ONE},
    {"roles.local": ["check"]},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_second_machine_computes_every_adapter_from_the_record(tmp_path: Path, changes: Any):
    played = Played(tmp_path, config(**changes))
    (ledger, *_) = ledgers_in(tmp_path)
    verdict = verify_ledger(ledger)
    assert verdict.finding is None
    part = travelling_spec(SPEC, played.config)
    for _, line in round_entries(verdict.entries):
        current, result = played.adapters[line.round - 1], played.results[line.round - 1]
        voted = {name: {*BARE[name]} & {*part.blocks} for name in line.voters}
        assert line.blocks == {name: tuple(sorted(blocks)) for name, blocks in voted.items()}
        answers = []
        for name in line.voters:
            vote = played.sent(name, line.round)
            assert vote is not None
            whole = with_resting_factor(vote, layout_of(vote, part), current)
            stats = result.stats[name]
            most = cap_lessons(stats.buffered, played.config, round=line.round)
            stats = stats.model_copy(update={"buffered": most})
            read = partial(bytes, whole)
            answers.append(Answer(name, stats, read, blocks=line.blocks[name]))
        moments = played.moments[line.round - 1]
        again = server_round(current, answers, played.config, moments=moments)
        assert again.adapter.digest == line.after
        assert line.bytes_up == sum(len(played.sent(name, line.round) or b"") for name in ACTING)
    assert [line.blocks for _, line in round_entries(verdict.entries)] == [
        result.blocks for result in played.results
    ]


def test_the_record_of_who_voted_on_what_cannot_be_changed(tmp_path: Path):
    played = Played(tmp_path, config())
    with played.opened() as run:
        first = played.results[0]
        lie = first.model_copy(update={"blocks": {**first.blocks, "c": ("plan",)}})
        run._db.execute("UPDATE round SET result = ? WHERE idx = 1", (lie.model_dump_json(),))
        run._db.commit()
    finding = verify_ledger(tmp_path / "ledger.jsonl").finding
    assert finding is not None
    assert finding.reason == "differs from round 1 as committed: blocks"


@pytest.mark.parametrize("changes", [{}, {"roles.policy": "shared"}], ids=str)
def test_the_order_of_roles_and_of_clients_changes_no_bit(tmp_path: Path, changes: Any):
    told = config(**changes)
    turned = config(names=ROLES[::-1], **changes)
    turned = turned.model_copy(update={"clients": tuple(reversed(turned.clients))})
    found = [Played(tmp_path / n, c).final.digest for n, c in (("a", told), ("b", turned))]
    assert found[0] == found[1]


def test_one_role_and_a_shared_policy_are_what_no_roles_are(tmp_path: Path):
    """Byte for byte, but for the digest of what was agreed and the figures of each role."""
    raw = config().model_dump(mode="json")
    for client in raw["clients"]:
        client["roles"] = ()
    told = [
        {"names": ()},
        {"names": ("solo",), "policy": "isolated"},
        {"names": ROLES, "policy": "shared"},
    ]
    found = []
    for place, roles in enumerate(told):
        played = Played(tmp_path / str(place), Config.model_validate({**raw, "roles": roles}))
        votes = [played.sent(name, 1) for name in ACTING]
        other = {"rollout_seconds", "train_seconds", "eval_seconds", "roles"}
        timed = dict.fromkeys(ACTING, frozenset(other))
        lines = [r.model_dump(exclude={"seconds": True, "stats": timed}) for r in played.results]
        found.append((votes, lines, played.adapters[0].spec.identity))
        assert '"blocks"' not in (played.path / "ledger.jsonl").read_text()
    assert found[0] == found[1] == found[2]
    assert found[0][2] == toy_spec().identity


def test_spreading_over_processes_changes_no_bit(tmp_path: Path):
    given = config(**{"roles.local": ["check"]})
    spread = with_settings(given, {"run.workers": 2})
    one, two = Played(tmp_path / "one", given), Played(tmp_path / "two", spread)
    assert [r.after for r in one.results] == [r.after for r in two.results]
    assert [own(one, name) for name in ACTING] == [own(two, name) for name in ACTING]
    assert len({own(one, name) for name in ("a", "b", "e")}) == 3


def own(played: Played, name: str) -> bytes:
    with closing(Buffer(played.path / "clients" / name / "buffer.db")) as buffer:
        return buffer.outbox.local.newest("toy").get("check", b"")


def test_a_local_block_is_in_no_adapter_of_the_federation(tmp_path: Path):
    played = Played(tmp_path, config(**{"roles.local": ["check"], "personal.steps": 2}))
    for index in (1, 2, 3):
        assert played.changed(index) == {"act", "plan"}
        assert all("check" not in blocks for blocks in played.results[index - 1].blocks.values())
    values = [own(played, name) for name in ACTING if "check" in BARE[name]]
    assert len({*values}) == 3
    assert not any(own(played, name) for name in ACTING if "check" not in BARE[name])
    stored = b"".join(
        file.read_bytes() for file in (tmp_path / "blobs").rglob("*") if file.is_file()
    )
    assert stored
    assert not any(value in stored for value in values)


def test_a_secret_sum_is_the_plain_mean_of_each_block(tmp_path: Path):
    """But for the rounding of whole numbers; also where some block has no vote in a round."""
    changes: dict[str, object] = {"aggregate.clip": "none", "run.rounds": 2}
    plain = Played(tmp_path / "plain", config(**changes))
    secret = Played(tmp_path / "secret", config(**changes, **{"aggregate.secure": True}))
    assert [r.blocks for r in secret.results] == [r.blocks for r in plain.results]
    for one, other in zip(plain.adapters, secret.adapters, strict=True):
        error = FixedPoint(8.0, len(ACTING)).unit
        np.testing.assert_allclose(one.vector, other.vector, rtol=0, atol=4 * error + 1e-7)
    assert secret.changed(1) == {*ROLES}


def test_a_mean_in_which_the_rest_changed_nothing_has_its_share_in_each_block():
    start, end = (toy_adapter(SPEC, seed) for seed in (1, 2))
    found = partway(start, end, {"act": 1.0, "check": 0.0, "plan": 0.5})
    whole = span_of(SPEC, "act")
    np.testing.assert_allclose(found.vector[whole], end.vector[whole], rtol=1e-6)
    unmoved = span_of(SPEC, "check")
    assert found.vector[unmoved].tobytes() == start.vector[unmoved].tobytes()
    half = span_of(SPEC, "plan")
    np.testing.assert_allclose(
        found.vector[half], (start.vector[half] + end.vector[half]) / 2, rtol=1e-6
    )
