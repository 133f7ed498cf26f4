"""The law of the tree, round by round: regions give what one coordinator gives, bit for bit.

Members are made up, so whole federations run in memory, but for their folders.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.needs import needs

needs("cryptography")

from fedse.aggregate.factors import learned_part, travelling_spec
from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.drivers.loop import federate, federate_by
from fedse.errors import ConfigError, FedSEError
from fedse.faults import Fault
from fedse.ledger.chain import FILE
from fedse.ledger.keys import PUBLIC, read_public
from fedse.ledger.record import verify_ledger
from fedse.protocol import Ask, Delivery, Request
from fedse.seeds import seed_of
from fedse.store.run import Run
from fedse.testing import toy_spec
from fedse.tree.messages import RegionAsk, RegionReply
from fedse.tree.region import Region
from fedse.tree.root import RegionLink, Regions
from fedse.tree.settings import regions_of, require_composable
from fedse.types import Adapter, ClientStats

SPEC = toy_spec()
REGIONS = {"north": ("a", "c", "e"), "south": ("b", "d", "f")}
NAMES = tuple("abcdef")
GAMES = 50
Answering = Callable[[Region, RegionAsk, bytes], RegionReply]


def config(rounds: int = 2, **changes: Any) -> Config:
    where = {client: region for region, members in REGIONS.items() for client in members}
    sections: dict[str, Any] = {
        "run": {"name": "tree", "rounds": rounds},
        "eval": {"episodes": 4},
        "clients": [{"name": n, "env": "maze", "region": where[n]} for n in NAMES],
        **changes,
    }
    sections["aggregate"] = {"sum": "exact", **changes.get("aggregate", {})}
    return Config.model_validate(sections)


class Members:
    """Sites that learn something random each; `poison` makes it worse, `broken` sends no number."""

    def __init__(
        self,
        settings: Config,
        names: Collection[str] = NAMES,
        *,
        poison: str = "",
        broken: str = "",
    ) -> None:
        self.settings, self.names, self.poison, self.broken = settings, names, poison, broken

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        for name in self.names:
            if name in skip:
                continue
            if request.validate_only:
                yield self.count(name, adapter)
            elif request.train:
                yield self.vote(name, request, adapter)
            else:
                yield Delivery(name, ClientStats(eval_played=4, eval_succeeded=2))

    def vote(self, name: str, request: Request, adapter: Adapter) -> Delivery:
        stats = ClientStats(played=1, buffered=ord(name) % 5, eval_played=2)
        draw = np.random.default_rng(seed_of(name, request.round))
        step = draw.standard_normal(SPEC.size) * 10.0 ** draw.integers(-4, 0)
        if name == self.poison:
            step = np.full(SPEC.size, -1.5)
        if name == self.broken:
            step[1] = np.nan
        if name == "f" and request.round == 2:
            return Delivery(name, stats)
        trained = Adapter(SPEC, (adapter.vector + step).astype(np.float32))
        returned = travelling_spec(SPEC, self.settings)
        return Delivery(name, stats, learned_part(trained, returned).to_bytes())

    def count(self, name: str, adapter: Adapter) -> Delivery:
        won = round(GAMES * float(np.clip(0.6 + adapter.vector.mean(), 0, 1)))
        return Delivery(name, ClientStats(validation_played=GAMES, validation_succeeded=won))


def answered(region: Region, asked: RegionAsk, data: bytes) -> RegionReply:
    """As over a socket: an error becomes its number."""
    try:
        return region.answer(asked, data)
    except FedSEError as error:
        return RegionReply(Fault(error.exit_code))


class Federated(NamedTuple):
    path: Path
    results: list[RoundResult]
    evals: dict[str, ClientStats]

    @property
    def digests(self) -> list[str]:
        return [result.after for result in self.results]


def run_in(path: Path, settings: Config, ask: Ask) -> Federated:
    with closing(Run(path, settings, SPEC, clock=lambda: 0.0)) as run:
        federate(run, ask, clock=lambda: 0.0)
        return Federated(path, list(run.results()), run.evals(settings.run.rounds))


def flat(path: Path, settings: Config, **who: str) -> Federated:
    return run_in(path / "flat", settings, Members(settings, **who))


def link_to(path: Path, settings: Config, name: str, answer: Answering, **who: str) -> RegionLink:
    members = Members(settings, REGIONS[name], **who)
    home = path / name
    region = Region(name, settings, SPEC, members, home, clock=lambda: 0.0)
    ask = partial(answer, region)
    return RegionLink(name, REGIONS[name], read_public(home / PUBLIC), ask)


def tree(path: Path, settings: Config, south: Answering = answered, **who: str) -> Federated:
    with closing(Run(path / "tree", settings, SPEC, clock=lambda: 0.0)) as run:
        links = [
            link_to(path, settings, "north", answered, **who),
            link_to(path, settings, "south", south, **who),
        ]
        regions = Regions(run, links, clock=lambda: 0.0)
        federate_by(regions.gather, run, regions, clock=lambda: 0.0)
        return Federated(run.path, list(run.results()), run.evals(settings.run.rounds))


GATED = {"splits": {"validation": 0.2}, "gate": {"episodes": GAMES, "liars": 1, "accuse": False}}
RULES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "the default": ({}, {}),
    "no clip": ({"aggregate": {"clip": "none"}}, {}),
    "weighted": ({"aggregate": {"type": "weighted"}}, {}),
    "fedexp": ({"aggregate": {"step_rule": "fedexp"}}, {}),
    "nesterov": ({"aggregate": {"outer": "nesterov"}}, {}),
    "adam, no clip": ({"aggregate": {"outer": "adam", "clip": "none"}}, {}),
    "A and B in turn": ({"train": {"factors": "alternate"}}, {}),
    "a site that breaks the rules": ({"aggregate": {"strikes": 1}}, {"broken": "d"}),
    "a gate and a poisoner": ({"aggregate": {"clip": "none"}, **GATED}, {"poison": "e"}),
}


@pytest.mark.parametrize(("changes", "who"), RULES.values(), ids=RULES)
def test_two_regions_give_what_one_coordinator_gives(tmp_path: Path, changes: Any, who: Any):
    settings = config(**changes)
    one, two = flat(tmp_path, settings, **who), tree(tmp_path, settings, **who)
    assert two.digests == one.digests
    assert len(set(two.digests)) == 2
    for there, here in zip(one.results, two.results, strict=True):
        assert (here.voters, here.abstained, here.absent) == (
            there.voters,
            there.abstained,
            there.absent,
        )
        assert {(e.client, e.kind) for e in here.excluded} == {
            (e.client, e.kind) for e in there.excluded
        }
        assert (here.moments, here.gate) == (there.moments, there.gate)
    assert {name: stats.eval_succeeded for name, stats in two.evals.items()} == {
        name: stats.eval_succeeded for name, stats in one.evals.items()
    }


def test_the_cases_show_what_they_are_called(tmp_path: Path):
    changes, who = RULES["a gate and a poisoner"]
    gated = tree(tmp_path, config(**changes), **who)
    assert [(e.client, e.kind) for e in gated.results[0].excluded] == [("e", "suspected")]
    changes, who = RULES["a site that breaks the rules"]
    struck = tree(tmp_path / "second", config(**changes), **who)
    kinds = [[e.kind for e in result.excluded] for result in struck.results]
    assert kinds == [["rejected"], ["quarantined"]]


def test_adapters_of_sites_stay_in_their_region(tmp_path: Path):
    settings = config()
    done = tree(tmp_path, settings)
    sums = 8 * SPEC.size
    for result in done.results:
        assert result.bytes_down == 2 * SPEC.nbytes
        assert result.bytes_up % sums == 0
        assert 2 * sums <= result.bytes_up <= 6 * sums
    assert list((done.path / "inbox").iterdir()) == []


def test_both_sides_can_prove_what_was_said(tmp_path: Path):
    done = tree(tmp_path, config())
    ledgers = [done.path / FILE, tmp_path / "north" / FILE, tmp_path / "south" / FILE]
    verdicts = [verify_ledger(path) for path in ledgers]
    assert [verdict.finding for verdict in verdicts] == [None] * 3
    above, *below = ([e for e in v.entries if e.kind in ("region", "summed")] for v in verdicts)
    assert len(above) == 4
    for region, own in zip(REGIONS, below, strict=True):
        told = [e.facts["line"] for e in above if e.facts["region"] == region]
        assert told == [line.model_dump(mode="json") for line in own]


def test_a_region_that_was_killed_before_its_sum_is_asked_loses_nothing(tmp_path: Path):
    settings = config()

    def forgets(region: Region, asked: RegionAsk, data: bytes) -> RegionReply:
        if asked.wanted is not None and data == b"":
            region._held = None
        return answered(region, asked, data)

    assert tree(tmp_path, settings, forgets).digests == flat(tmp_path, settings).digests


def without_south(path: Path, settings: Config) -> list[str]:
    """What one coordinator makes of the north alone."""
    return run_in(path / "north-only", settings, Members(settings, REGIONS["north"])).digests


def is_gone(region: Region, asked: RegionAsk, data: bytes) -> RegionReply:
    return RegionReply(Fault.UNREACHABLE)


def dies_before_the_sum(region: Region, asked: RegionAsk, data: bytes) -> RegionReply:
    return is_gone(region, asked, data) if asked.wanted else answered(region, asked, data)


def changes_a_bit(region: Region, asked: RegionAsk, data: bytes) -> RegionReply:
    reply = answered(region, asked, data)
    return reply._replace(total=reply.total[:-1] + b"\x01") if reply.total else reply


def sums_others(region: Region, asked: RegionAsk, data: bytes) -> RegionReply:
    if asked.wanted is None:
        return answered(region, asked, data)
    fewer = asked.wanted.model_copy(update={"voters": asked.wanted.voters[:-1]})
    return answered(region, asked.model_copy(update={"wanted": fewer}), data)


def ignores_the_bound(region: Region, asked: RegionAsk, data: bytes) -> RegionReply:
    """And signs that it did not; its sites' updates are made a thousand times as long."""
    if asked.wanted is None:
        return answered(region, asked, data)
    planes = np.frombuffer(answered(region, asked, data).total, dtype="<f8").copy()
    planes[: SPEC.size] += 1000
    return signed_again(region, asked, planes.tobytes())


def signed_again(region: Region, asked: RegionAsk, total: bytes) -> RegionReply:
    said = region._ledger.read()[-1].facts
    forged = {**said, "sum": hashlib.sha256(total).hexdigest(), "bytes_up": len(total)}
    return RegionReply(entry=region._ledger.append("summed", forged), total=total)


def signs_with_another_key(region: Region, asked: RegionAsk, data: bytes) -> RegionReply:
    reply = answered(region, asked, data)
    if reply.entry is None:
        return reply
    return reply._replace(entry=reply.entry.model_copy(update={"signature": "00" * 64}))


def repeats_itself(region: Region, asked: RegionAsk, data: bytes) -> RegionReply:
    reply = answered(region, asked, data)
    return reply._replace(lines=(*reply.lines, *reply.lines[:1]))


BAD: dict[str, tuple[Answering, str]] = {
    "is gone": (is_gone, "it has no answer: the site's worker does not run"),
    "dies before the sum": (dies_before_the_sum, "it has no answer"),
    "changes a bit": (changes_a_bit, "it signed another sum"),
    "sums others": (sums_others, "it signed another sum"),
    "ignores the bound": (ignores_the_bound, "away from the global adapter"),
    "signs with another key": (signs_with_another_key, "not signed with its key"),
    "tells of a site twice": (repeats_itself, "its signature is not of what it told"),
}


@pytest.mark.parametrize(("south", "reason"), BAD.values(), ids=BAD)
def test_a_bad_region_costs_its_own_votes_and_no_others(
    tmp_path: Path, south: Answering, reason: str
):
    settings = config(rounds=1)
    done = tree(tmp_path, settings, south)
    assert done.digests == without_south(tmp_path, settings)
    (result,) = done.results
    assert result.voters == REGIONS["north"]
    told = {one.client: (one.kind, one.reason) for one in result.excluded}
    assert sorted(told) == sorted(REGIONS["south"])
    assert {kind for kind, _ in told.values()} == {"failed"}
    assert all(why.startswith("its region south: ") and reason in why for _, why in told.values())


REFUSED = {
    "ordered": ({"aggregate": {"sum": "ordered"}}, "rounds in the order", "exact"),
    "product": ({"aggregate": {"type": "product"}}, "needs every adapter in one place", "mean"),
    "goal": ({"aggregate": {"goal": 4}}, "closes a round", "aggregate.goal = 0"),
    "accusing": (
        {**GATED, "gate": {"episodes": GAMES, "liars": 1}},
        "compares votes",
        "gate.accuse = false",
    ),
    "pooled": ({"buffer": {"pooled": True}}, "in one place", "engine local"),
}


@pytest.mark.parametrize(("changes", "reason", "hint"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_compose_is_refused(changes: Any, reason: str, hint: str):
    require_composable(config())
    with pytest.raises(ConfigError, match=reason) as refusal:
        require_composable(config(**changes))
    assert hint in refusal.value.hint


def test_every_client_of_a_tree_has_a_region():
    assert regions_of(config()) == REGIONS
    lone = config(clients=[{"name": "a", "env": "maze"}])
    with pytest.raises(ConfigError, match="client a has no region"):
        regions_of(lone)
